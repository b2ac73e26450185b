"""What is decided for a stuck site, from values alone: no database, no queue, no files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipestate.core.errors import ConfigError
from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.queues.config import QueueConfig
from pipestate.pipeline.queues.port import Alive, Destination
from pipestate.pipeline.reconcile.decide import Action, Recovery, Rules, decide
from pipestate.pipeline.reconcile.stuck import Counters, StuckSite
from pipestate.pipeline.stages import STAGES
from pipestate.pipeline.storage import Documents

SITE = "a.gov"
JOBS = {stage: Destination(stage, f"clerk.workers.{stage}_job") for stage in STAGES}
COORDINATORS = {stage: Destination(stage, f"clerk.workers.{stage}_done") for stage in STAGES}
CONFIG = QueueConfig(JOBS, COORDINATORS)


def make_site(
    stage: str = "ocr", counters: Mapping[str, Counters] | None = None, **changes: Any
) -> StuckSite:
    values: dict[str, Any] = {
        "version": "v",
        "hours": 3.0,
        "claimed": False,
        "attempts": 0,
        "last_error": None,
    }
    everything = dict.fromkeys(STAGES, Counters(0, 0, 0)) | dict(counters or {})
    return StuckSite(subdomain=SITE, stage=stage, counters=everything, **values | changes)


def make_documents(pdfs: int, texts: int) -> Documents:
    return Documents(
        {f"c/{number}": f"/c/{number}.pdf" for number in range(pdfs)},
        frozenset(f"c/{number}" for number in range(texts)),
    )


@dataclass
class Given:
    """A storage directory with the same documents for each site."""

    found: Documents

    def documents(self, _subdomain: str) -> Documents:
        return self.found


def make_rules(*, pdfs: int = 0, texts: int = 0, **changes: Any) -> Rules:
    given: dict[str, Any] = {"config": CONFIG, "storage": Given(make_documents(pdfs, texts))}
    return Rules(**given | changes)


def reported(result: Result[Recovery]) -> tuple[Action, list[str]]:
    return result.subject.action, [call.place.name for call in result.subject.calls]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_has_ended_gets_its_coordinator(stage: str) -> None:
    site = make_site(stage, {stage: Counters(5, 3, 2)})
    result = decide(site, make_rules())
    assert reported(result) == (Action.COORDINATOR, [f"{stage}_done"])
    assert result.reason == f"{_ended(stage)}, no coordinator was claimed"


def _ended(stage: str) -> str:
    if stage == "compilation":
        return "compilation 3/5, 2 failed, extraction 0/0"
    return ("compilation 0/0, " if stage == "extraction" else "") + f"{stage} 3/5, 2 failed"


def test_a_claimed_coordinator_was_lost() -> None:
    result = decide(make_site(counters={"ocr": Counters(1, 1, 0)}, claimed=True), make_rules())
    assert result.reason == "ocr 1/1, its coordinator was lost"


@pytest.mark.parametrize("stage", ["fetch", "compilation", "extraction", "deploy"])
def test_the_only_job_of_a_stage_is_sent_again(stage: str) -> None:
    result = decide(make_site(stage, {stage: Counters(1, 0, 1)}), make_rules())
    assert reported(result) == (Action.JOBS, [f"{stage}_job"])
    assert result.subject.counters == {stage: Counters(1, 0, 0)}


def test_files_say_which_documents_are_missing() -> None:
    result = decide(make_site(counters={"ocr": Counters(5, 1, 1)}), make_rules(pdfs=5, texts=3))
    assert [call.kwargs["pdf_path"] for call in result.subject.calls] == ["/c/3.pdf", "/c/4.pdf"]
    assert result.subject.counters == {"ocr": Counters(5, 3, 0)}
    assert result.subject.succeeded == {"c/0", "c/1", "c/2", "/c/0.pdf", "/c/1.pdf", "/c/2.pdf"}
    assert result.reason == "3 of 5 documents have text"


def test_files_are_not_read_where_the_counters_say_enough() -> None:
    decide(make_site(counters={"ocr": Counters(2, 1, 1)}), make_rules(storage=None))
    with pytest.raises(ConfigError, match="give --storage-dir or set STORAGE_DIR"):
        decide(make_site(counters={"ocr": Counters(2, 1, 0)}), make_rules(storage=None))


def test_of_stages_side_by_side_only_the_undone_one_is_sent() -> None:
    site = make_site("extraction", {"compilation": Counters(1, 1, 0), "extraction": Counters(1, 0, 0)})
    assert reported(decide(site, make_rules())) == (Action.JOBS, ["extraction_job"])


def test_the_application_says_which_jobs_are_missing() -> None:
    site = make_site("deploy", {"deploy": Counters(7, 4, 1)})
    unknown = decide(site, make_rules())
    assert (unknown.outcome, unknown.subject.action) == (SubjectOutcome.SKIPPED, Action.PERSON)
    assert "deploy has 7 jobs, and the missing ones are unknown" in str(unknown.reason)
    known = decide(site, make_rules(missing=lambda subdomain, stage: [{"host": 1}, {"host": 2}]))
    assert [call.kwargs["host"] for call in known.subject.calls] == [1, 2]
    assert known.subject.counters == {"deploy": Counters(7, 5, 0)}
    none = decide(site, make_rules(missing=lambda subdomain, stage: []))
    assert reported(none) == (Action.COORDINATOR, ["deploy_done"])


@pytest.mark.parametrize("place", [None, Destination("deploy", "deploy_job")])
def test_what_cannot_be_enqueued_needs_a_person(place: Destination | None) -> None:
    jobs = {} if place is None else {"deploy": place}
    site = make_site("deploy", {"deploy": Counters(1, 0, 1)})
    result = decide(site, make_rules(config=QueueConfig(jobs, COORDINATORS)))
    assert (result.outcome, result.subject.action) == (SubjectOutcome.SKIPPED, Action.PERSON)
    assert "write deploy_job under [pipestate:queues]" in str(result.reason)


# Whatever the world looks like.

numbers = st.integers(0, 6)


@st.composite
def counters(draw: st.DrawFn) -> Counters:
    total = draw(numbers)
    completed = draw(st.integers(0, total))
    return Counters(total, completed, draw(st.integers(0, total - completed)))


sites = st.builds(
    lambda stage, every, attempts, claimed: make_site(stage, every, attempts=attempts, claimed=claimed),
    st.sampled_from(STAGES),
    st.fixed_dictionaries({stage: counters() for stage in STAGES}),
    numbers,
    st.booleans(),
)
names = [place.name for place in (*JOBS.values(), *COORDINATORS.values())]
alive = st.dictionaries(st.tuples(st.just(SITE), st.sampled_from(names)), st.integers(1, 3), max_size=2)
every_rules = st.builds(
    lambda pdfs, texts, calls, missing, cap, by_hand: make_rules(
        pdfs=pdfs,
        texts=texts,
        alive=Alive(calls),
        missing=lambda *_: None if missing is None else [{"n": number} for number in range(missing)],
        max_attempts=cap,
        site=SITE if by_hand else None,
    ),
    numbers,
    numbers,
    st.just({}) | alive,
    st.none() | numbers,
    st.integers(1, 6),
    st.booleans(),
)


@given(sites, every_rules)
def test_calls_are_sent_just_where_the_site_recovers(site: StuckSite, rules: Rules) -> None:
    result = decide(site, rules)
    recovers = result.subject.action in (Action.COORDINATOR, Action.JOBS)
    assert recovers == result.outcome.done == bool(result.subject.calls)
    assert result.outcome in (SubjectOutcome.RECOVERED, SubjectOutcome.SKIPPED)
    assert result.reason
    for call in result.subject.calls:
        assert call.place.importable
        assert (call.kwargs["subdomain"], call.kwargs["run_id"]) == (SITE, f"{SITE}_recovered")


@given(sites, every_rules)
def test_nothing_is_sent_past_the_cap_or_beside_what_is_alive(site: StuckSite, rules: Rules) -> None:
    result = decide(site, rules)
    busy = any(
        rules.alive.of(SITE, place) for stage in site.step for place in (JOBS[stage], COORDINATORS[stage])
    )
    if site.attempts >= rules.max_attempts and not rules.named:
        assert result.subject.action is Action.PERSON
    elif busy:
        assert result.subject.action is Action.WAIT


@given(sites, every_rules)
def test_new_counters_fit_what_is_sent(site: StuckSite, rules: Rules) -> None:
    """As many jobs are sent as are not counted as completed: so the last of them ends the stage."""
    recovery = decide(site, rules).subject
    for stage, after in recovery.counters.items():
        assert stage in site.step
        assert after.failed == 0
        assert 0 <= after.completed <= after.total
        sent = sum(call.place == JOBS[stage] for call in recovery.calls)
        assert sent == after.total - after.completed
        if stage != "ocr" or not rules.named:
            assert after.total >= site.counters[stage].total, "half a disk must not lower the total"


@given(sites, every_rules)
def test_one_coordinator_is_sent_and_never_beside_jobs(site: StuckSite, rules: Rules) -> None:
    recovery = decide(site, rules).subject
    sent = [call for call in recovery.calls if call.place in COORDINATORS.values()]
    assert len(sent) == (recovery.action is Action.COORDINATOR)
    assert not sent or len(recovery.calls) == 1
