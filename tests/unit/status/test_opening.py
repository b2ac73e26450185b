"""When a gate can open: from what was observed by the checks that want days on record."""

from datetime import UTC, datetime, timedelta

import pytest

from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.model import Check, Level, SignOff
from pipestate.status.model import Soak
from pipestate.status.opening import find_soaks, opening
from pipestate.verify.report import Gate, Json, Outcome, Verdict

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
REQUIRE = "days_open >= 7 and longest_gap_hours <= 48"
SINCE = "SELECT * FROM pipestate.soak_since ORDER BY days_open DESC LIMIT 1"
WHOLE = "SELECT * FROM pipestate.soak"


def make_check(sql: str = SINCE, require: str = REQUIRE, id: str = "soak") -> Check:
    return Check(id, 1, sql, parse_requirement(require))


def make_verdict(
    observed: dict[str, Json] | None = None,
    *,
    outcome: Outcome = Outcome.FAILED,
    id: str = "soak",
    level: Level = Level.BLOCK,
) -> Verdict:
    return Verdict(id, outcome, level, REQUIRE, observed or {}, "no", "b.md:1", 1.0)


def streak(days: float | None, gap: float | None = 24.0, **more: Json) -> dict[str, Json]:
    since = None if days is None else (NOW - timedelta(days=days)).isoformat().replace("+00:00", "Z")
    return {
        "runbook": "b",
        "phase": "one",
        "open_since": since,
        "days_open": days,
        "longest_gap_hours": gap,
        **more,
    }


def only(check: Check, verdict: Verdict, *closed: str) -> Soak:
    (soak,) = find_soaks([check], [verdict], NOW, closed)
    return soak


def test_a_streak_goes_on_until_it_is_long_enough() -> None:
    soak = only(make_check(), make_verdict(streak(3.25)))
    assert (soak.of, soak.days, soak.required, soak.counts) == ("b/one", 3.25, 7.0, True)
    assert soak.since == NOW - timedelta(days=3.25)
    assert soak.opens_at == NOW + timedelta(days=3.75)


def test_without_the_beginning_it_is_counted_back_from_the_days() -> None:
    soak = only(make_check(), make_verdict({"days_open": 3.25, "longest_gap_hours": 1}))
    assert (soak.of, soak.opens_at) == (None, NOW + timedelta(days=3.75))


def test_sqlites_times_are_utc() -> None:
    soak = only(make_check(), make_verdict(streak(3.0, open_since="2026-11-17 10:00:00.000")))
    assert soak.opens_at == NOW + timedelta(days=4)


@pytest.mark.parametrize("observed", [streak(None, None), {"rows": 0}], ids=["no streak", "no record"])
def test_what_has_not_begun_begins_now_at_best(observed: dict[str, Json]) -> None:
    soak = only(make_check(), make_verdict(observed))
    assert (soak.since, soak.counts, soak.opens_at) == (None, False, NOW + timedelta(days=7))


def test_behind_a_gap_the_days_begin_anew() -> None:
    soak = only(make_check(), make_verdict(streak(9.0, 72.0)))
    assert (soak.days, soak.counts, soak.opens_at) == (9.0, False, NOW + timedelta(days=7))


def test_a_gap_in_the_whole_streak_is_ended_by_no_time() -> None:
    assert only(make_check(WHOLE), make_verdict(streak(9.0, 72.0))).opens_at is None


def test_more_than_seven_days_are_a_hundredth_more() -> None:
    soak = only(make_check(require="days_open > 7"), make_verdict(streak(3.0)))
    assert soak.required == 7.01


def test_days_that_no_calendar_has_are_no_date() -> None:
    assert only(make_check(require="days_open >= 99999999999"), make_verdict(streak(3.0))).opens_at is None


def test_a_phase_that_is_closed_now_ends_the_streak() -> None:
    assert only(make_check(), make_verdict(streak(3.0)), "b/one").ends_next
    assert not only(make_check(), make_verdict(streak(3.0)), "b/two").ends_next


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        (make_check("SELECT days_open FROM elsewhere"), make_verdict(streak(3.0))),
        (make_check("SELECT 'pipestate.soak' AS days_open"), make_verdict(streak(3.0))),
        (make_check(require="records >= 7"), make_verdict(streak(3.0))),
        (make_check(require="days_open <= 7"), make_verdict(streak(3.0))),
        (make_check(), make_verdict(outcome=Outcome.ERRORED)),
        (make_check(), make_verdict(outcome=Outcome.SKIPPED)),
        (make_check(), make_verdict(streak(3.0), level=Level.WARN)),
        (SignOff("soak", 1, timedelta(1), "…"), make_verdict(streak(3.0))),
    ],
    ids=["another table", "a literal", "other columns", "at most", "errored", "skipped", "warned", "a word"],
)
def test_what_is_no_soak(check: Check | SignOff, verdict: Verdict) -> None:
    assert find_soaks([check], [verdict], NOW) == ()


def test_a_gate_opens_at_the_latest_of_its_soaks_and_not_before_the_others_pass() -> None:
    checks = [make_check(), make_check(id="longer", require="days_open >= 14"), make_check(id="done")]
    verdicts = [
        make_verdict(streak(3.0)),
        make_verdict(streak(3.0), id="longer"),
        make_verdict(streak(9.0), id="done", outcome=Outcome.PASSED),
        make_verdict(id="quiet"),
        make_verdict(id="slow", level=Level.WARN),
    ]
    soaks = find_soaks(checks, verdicts, NOW)
    assert [(soak.check, soak.passed) for soak in soaks] == [
        *(("soak", False), ("longer", False), ("done", True))
    ]
    found = opening(Gate.CLOSED, soaks, verdicts)
    assert found is not None
    assert found.at == NOW + timedelta(days=11)
    assert found.waits_for == ("quiet",)
    assert opening(Gate.OPEN, soaks, verdicts) is None


def test_where_no_time_helps_there_is_no_date() -> None:
    soaks = find_soaks([make_check(WHOLE)], [make_verdict(streak(9.0, 72.0))], NOW)
    found = opening(Gate.CLOSED, soaks, [make_verdict(streak(9.0, 72.0))])
    assert found is not None
    assert (found.at, found.waits_for) == (None, ("soak",))
