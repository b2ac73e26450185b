"""The backfill on both engines: what it counts, what it writes, and what it leaves alone."""

import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from pipestate.backfill import loop, postgresql
from pipestate.core.errors import ConfigError, Unreachable
from pipestate.pipeline.backfill import apply, plan
from pipestate.pipeline.backfill.stale_rows import BackfillPlan, SiteCounts
from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.stages import THRESHOLD
from pipestate.pipeline.storage import Documents, Storage, open_storage
from pipestate.verify.report import Outcome as Verdict
from support.file_rights import powerless
from support.servers import Database, Postgres, Sqlite
from support.stale_rows import LIVE, Stuck, fill_expanded
from support.verdicts import shipped, verdict

COMPLETE = "backfill/backfill-complete"


@pytest.fixture
def stuck(bed: Postgres | Sqlite, tmp_path: Path) -> Iterator[Stuck]:
    database = bed.copy_of("backfill", fill_expanded)
    yield Stuck(database, tmp_path)
    bed.drop(database)


def planned(stuck: Stuck, threshold: timedelta = THRESHOLD) -> BackfillPlan:
    return plan(stuck.database.url, open_storage(stuck.root), threshold=threshold)


def run(stuck: Stuck) -> dict[str, Result[SiteCounts]]:
    return by_name(apply(stuck.database.url, planned(stuck)))


def by_name(results: list[Result[SiteCounts]]) -> dict[str, Result[SiteCounts]]:
    return {result.subject.subdomain: result for result in results}


def remaining(stuck: Stuck) -> object:
    return verdict(stuck.database, shipped("sites-consolidation"), COMPLETE).observed["rows"]


def test_counters_come_from_the_documents(stuck: Stuck) -> None:
    stuck.site("a.gov", 99)
    stuck.put("a.gov", "pdfs/c/1.pdf", "pdfs/c/2.pdf", "pdfs/c/3.pdf", "txt/c/1.txt", "txt/c/2/1.txt")
    stuck.put("a.gov", "txt/c/2/2.txt", "_agendas/pdfs/c/1.pdf", "_agendas/txt/c/1.txt")
    assert run(stuck) == {"a.gov": (SiteCounts("a.gov", 3, 4), SubjectOutcome.MIGRATED, None)}
    assert stuck.counters("a.gov") == ("ocr", 3, 1, 4)


def test_more_texts_than_pdfs_do_not_overshoot(stuck: Stuck) -> None:
    stuck.site("a.gov", 1)
    stuck.put("a.gov", "pdfs/c/1.pdf", "txt/c/2.txt", "txt/c/3.txt", "txt/c/4.txt")
    run(stuck)
    assert stuck.counters("a.gov") == ("ocr", 3, 1, 4)


@pytest.mark.parametrize(("total", "texts", "expected"), [(15, 0, 15), (15, 2, 15), (1, 2, 2), (None, 2, 2)])
def test_without_pdfs_the_old_total_counts(
    stuck: Stuck, total: int | None, texts: int, expected: int
) -> None:
    stuck.site("a.gov", total)
    stuck.put("a.gov", *(f"txt/c/{number}.txt" for number in range(texts)), "txt/readme.md")
    run(stuck)
    assert stuck.counters("a.gov") == ("ocr", texts, expected - texts, expected)


@pytest.mark.parametrize("total", [0, None])
def test_nothing_to_do_is_completed_with_its_reason(stuck: Stuck, total: int | None) -> None:
    stuck.site("a.gov", total)
    assert run(stuck)["a.gov"].outcome is SubjectOutcome.EMPTY
    assert stuck.counters("a.gov") == ("completed", 0, 0, 0)
    ((stage, message, at),) = stuck.database.rows(
        "SELECT last_error_stage, last_error_message, last_error_at FROM sites"
    )
    assert stage == "ocr"
    assert "no documents" in str(message)
    assert at is not None


def test_a_migrated_site_is_stuck_at_once_and_not_for_days(stuck: Stuck) -> None:
    stuck.site("a.gov", 1)
    stuck.site("empty.gov", 0)
    stuck.put("a.gov", "pdfs/c/1.pdf")
    run(stuck)
    query = "SELECT {} FROM sites WHERE subdomain = 'a.gov'"
    clock = "julianday(updated_at) {} julianday('now', '-{}')"
    if not stuck.database.is_sqlite:
        clock = "updated_at {} now() - interval '{}'"
    assert stuck.database.value(query.format(clock.format("<", "2 hours")))
    assert stuck.database.value(query.format(clock.format(">", "3 hours")))
    empty = query.replace("a.gov", "empty.gov")
    assert stuck.database.value(empty.format(clock.format(">", "1 minutes")))
    same = "s.started_at = p.started_at"
    assert stuck.database.value(f"SELECT {same} FROM sites s JOIN site_progress p USING (subdomain) LIMIT 1")


def test_a_missing_start_is_now(stuck: Stuck) -> None:
    stuck.site("a.gov", 1)
    stuck.put("a.gov", "pdfs/c/1.pdf")
    stuck.database.run("UPDATE site_progress SET started_at = NULL")
    run(stuck)
    assert stuck.database.value("SELECT started_at FROM sites") is not None


def test_live_rows_and_other_stages_are_left_alone(stuck: Stuck) -> None:
    stuck.site("live.gov", 0, at=LIVE)
    stuck.site("unknown-age.gov", 0, at=None)
    stuck.site("fetch.gov", 0)
    stuck.database.run("UPDATE site_progress SET current_stage = 'fetch' WHERE subdomain = 'fetch.gov'")
    assert set(run(stuck)) == {"unknown-age.gov"}
    assert stuck.counters("live.gov") == (None, 0, 0, 0)


def test_a_site_that_has_moved_on_is_not_dragged_back(stuck: Stuck) -> None:
    stuck.site("a.gov", 5)
    stuck.put("a.gov", "pdfs/c/1.pdf")
    stuck.database.run("UPDATE sites SET current_stage = 'deploy', ocr_total = 7")
    before = stuck.everything()
    assert run(stuck)["a.gov"].outcome is SubjectOutcome.MOVED_ON
    assert stuck.everything() == before


def test_an_orphan_is_reported_and_nothing_is_made_up_for_it(stuck: Stuck) -> None:
    stuck.site("gone.gov", site=False)
    assert run(stuck)["gone.gov"].outcome is SubjectOutcome.ORPHANED
    assert stuck.database.value("SELECT count(*) FROM sites") == 0


def test_what_happens_between_plan_and_apply_is_respected(stuck: Stuck) -> None:
    for name in ("deleted.gov", "moved.gov", "revived.gov", "waiting.gov"):
        stuck.site(name)
    the_plan = planned(stuck)
    assert len(the_plan.to_do) == 4
    stuck.database.run(
        "DELETE FROM sites WHERE subdomain = 'deleted.gov'",
        "UPDATE sites SET current_stage = 'fetch' WHERE subdomain = 'moved.gov'",
        f"UPDATE site_progress SET updated_at = {stuck.ago(LIVE)} WHERE subdomain = 'revived.gov'",
    )
    became = by_name(apply(stuck.database.url, the_plan))
    assert [became[name].outcome for name in sorted(became)] == [
        SubjectOutcome.ORPHANED,
        SubjectOutcome.MOVED_ON,
        SubjectOutcome.MOVED_ON,
        SubjectOutcome.EMPTY,
    ]
    assert stuck.counters("moved.gov")[0] == "fetch"
    assert stuck.counters("revived.gov")[0] is None


def test_a_second_run_changes_nothing(stuck: Stuck) -> None:
    for number in range(30):
        stuck.site(f"s{number:02}.gov", number % 3)
        stuck.put(f"s{number:02}.gov", "pdfs/c/1.pdf" if number % 2 else "txt/c/1.txt")
    stuck.site("live.gov", 1, at=LIVE)
    run(stuck)
    before = stuck.everything()
    again = run(stuck)
    assert {result.outcome for result in again.values()} == {SubjectOutcome.MOVED_ON}
    assert stuck.everything() == before


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_size_of_a_batch_does_not_matter(stuck: Stuck, size: int) -> None:
    for number in range(20):
        stuck.site(f"s{number:02}.gov")
    reported: list[tuple[int, int]] = []
    became = apply(
        stuck.database.url,
        planned(stuck),
        batch_size=size,
        on_progress=lambda done, total: reported.append((done, total)),
    )
    assert [result.subject.subdomain for result in became] == [f"s{number:02}.gov" for number in range(20)]
    assert stuck.database.value("SELECT count(*) FROM sites WHERE current_stage = 'completed'") == 20
    assert reported[-1] == (20, 20)
    assert len(reported) == -(-20 // size)


def test_names_that_need_quotes_are_written_as_well(stuck: Stuck) -> None:
    for name in ('a"b', "a{b,c}", "größe", "100%", "%(x)s", ":site"):
        stuck.site(name)
    assert {result.outcome for result in run(stuck).values()} == {SubjectOutcome.EMPTY}
    assert stuck.database.value("SELECT count(*) FROM sites WHERE current_stage IS NULL") == 0


def test_a_name_that_leaves_the_storage_directory_fails_and_the_others_go_on(stuck: Stuck) -> None:
    stuck.site("../etc")
    stuck.site("ok.gov")
    became = run(stuck)
    assert became["../etc"].outcome is SubjectOutcome.FAILED
    assert "check the subdomain" in str(became["../etc"].reason)
    assert became["ok.gov"].outcome is SubjectOutcome.EMPTY


def test_a_row_that_the_database_refuses_fails_alone(stuck: Stuck) -> None:
    for number in range(9):
        stuck.site(f"s{number}.gov")
    if stuck.database.is_sqlite:
        stuck.database.run(
            "CREATE TRIGGER no BEFORE UPDATE ON sites WHEN new.subdomain = 's4.gov' "
            "BEGIN SELECT raise(ABORT, 'not this one'); END"
        )
    else:
        stuck.database.run("ALTER TABLE sites ADD CHECK (subdomain <> 's4.gov' OR current_stage IS NULL)")
    became = run(stuck)
    failed = [result for result in became.values() if result.outcome is SubjectOutcome.FAILED]
    assert [result.subject.subdomain for result in failed] == ["s4.gov"]
    assert stuck.database.value("SELECT count(*) FROM sites WHERE current_stage = 'completed'") == 8


def test_nothing_is_left_for_the_check_just_when_nothing_is_left_to_plan(stuck: Stuck) -> None:
    """The backfill and `backfill-complete` mean the same rows, at every step and at every age."""
    ages = ["-3 days", "-121 minutes", "-119 minutes", "-1 minutes", "+1 minutes", None]
    for number, age in enumerate(ages):
        stuck.site(f"s{number}.gov", at=age)
        stuck.site(f"orphan{number}.gov", at=age, site=False)
    while to_do := planned(stuck).to_do:
        assert remaining(stuck) == len(to_do)
        apply(stuck.database.url, BackfillPlan(to_do[:1], THRESHOLD))
    assert remaining(stuck) == 0
    found = verdict(stuck.database, shipped("sites-consolidation"), COMPLETE)
    assert found.outcome is Verdict.PASSED
    assert stuck.database.value("SELECT count(*) FROM sites WHERE current_stage IS NULL") == 3


def test_the_threshold_decides_what_is_stale(stuck: Stuck) -> None:
    stuck.site("a.gov", at="-5 hours")
    assert not planned(stuck, threshold=timedelta(hours=6)).expected
    assert len(planned(stuck, threshold=timedelta(hours=4.9)).expected) == 1
    assert len(planned(stuck, threshold=timedelta(0)).expected) == 1


class Nobodys(Storage):
    """The storage directory as a user sees it who is not root."""

    def documents(self, subdomain: str) -> Documents:
        with powerless():
            return Storage.documents(self, subdomain)


def test_a_site_that_may_not_be_read_fails_and_the_others_go_on(stuck: Stuck) -> None:
    with tempfile.TemporaryDirectory() as name:
        shared = Stuck(stuck.database, Path(name))
        shared.root.chmod(0o755)
        for site in ("closed.gov", "open.gov"):
            shared.site(site, 2)
            shared.put(site, "pdfs/c/1.pdf", "pdfs/c/2.pdf", "txt/c/1.txt")
        (shared.root / "closed.gov" / "txt").chmod(0)
        the_plan = plan(shared.database.url, Nobodys(shared.root))
    became = by_name(apply(shared.database.url, the_plan))
    assert became["closed.gov"].outcome is SubjectOutcome.FAILED
    assert "closed.gov/txt: Permission denied" in str(became["closed.gov"].reason)
    assert stuck.counters("closed.gov") == (None, 0, 0, 0)
    assert stuck.counters("open.gov") == ("ocr", 1, 1, 2)


def test_an_empty_storage_directory_is_refused(stuck: Stuck) -> None:
    stuck.site("a.gov", 3)
    (stuck.root / "lost+found").mkdir()
    with pytest.raises(
        ConfigError, match=r"none of the 1 sites .* and 1 of site_progress .*nothing was written"
    ):
        planned(stuck)


def test_a_storage_directory_with_hardly_any_documents_is_refused(stuck: Stuck) -> None:
    for number in range(21):
        stuck.site(f"s{number}.gov", 3)
    stuck.put("s0.gov", "pdfs/c/1.pdf")
    stuck.put("s1.gov", "pdfs/c/1.pdf")
    with pytest.raises(ConfigError, match="only 2 of 21 sites"):
        planned(stuck)
    stuck.put("s2.gov", "txt/c/1.txt")
    assert len(planned(stuck).to_do) == 21


def test_without_expectations_an_empty_storage_directory_is_plausible(stuck: Stuck) -> None:
    stuck.site("a.gov", 0)
    assert run(stuck)["a.gov"].outcome is SubjectOutcome.EMPTY


def test_somebody_elses_lock_is_waited_for_and_then_one_sentence(
    stuck: Stuck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time to wait is cut short for the test; the lock is real."""
    if stuck.database.is_sqlite:
        stuck = Stuck(Database(stuck.database.url.update_query_dict({"timeout": "0.1"})), stuck.root)
    monkeypatch.setitem(postgresql.SETTINGS, "lock_timeout", "20ms")
    monkeypatch.setattr(loop, "LOCK_PATIENCE_S", 0.2)
    stuck.site("a.gov")
    the_plan = planned(stuck)
    said: list[str] = []
    with stuck.database.begin() as connection:
        connection.exec_driver_sql("UPDATE sites SET name = 'x'")
        with pytest.raises(Unreachable, match=r"rows of sites stayed locked .*the same command continues"):
            apply(stuck.database.url, the_plan, on_wait=said.append)
    assert said == ["another session has locked rows of sites: trying again for 0 s"]
    assert by_name(apply(stuck.database.url, the_plan))["a.gov"].outcome is SubjectOutcome.EMPTY


@pytest.mark.parametrize("refused", [{0}, {39}, {7, 8}, set(range(40))], ids=["first", "last", "two", "all"])
def test_refused_rows_fail_alone_wherever_they_are(stuck: Stuck, refused: set[int]) -> None:
    for number in range(40):
        stuck.site(f"s{number:02}.gov")
    names = ", ".join(f"'s{number:02}.gov'" for number in refused)
    if stuck.database.is_sqlite:
        stuck.database.run(
            f"CREATE TRIGGER no BEFORE UPDATE ON sites WHEN new.subdomain IN ({names}) "
            "BEGIN SELECT raise(ABORT, 'not this one'); END"
        )
    else:
        stuck.database.run(
            f"ALTER TABLE sites ADD CHECK (subdomain NOT IN ({names}) OR current_stage IS NULL)"
        )
    became = apply(stuck.database.url, planned(stuck), batch_size=16)
    failed = {int(r.subject.subdomain[1:3]) for r in became if r.outcome is SubjectOutcome.FAILED}
    assert failed == refused
    done = "SELECT count(*) FROM sites WHERE current_stage = 'completed'"
    assert stuck.database.value(done) == 40 - len(refused)
