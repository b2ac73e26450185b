"""A message of any size: what is news, in lines that can be read."""

from datetime import UTC, datetime

import pytest

from pipestate.cli.formats.notice import as_data, as_slack, as_text, notice_of
from pipestate.ledger.latest import Change, LastRecord, compare
from pipestate.runbook.model import Level
from pipestate.verify.report import DatabaseInfo, Gate, Outcome, PhaseReport, Report, RunbookReport, Verdict

HOUR = 3600.0


def verdict(check: str, outcome: Outcome = Outcome.FAILED, message: str = "no") -> Verdict:
    return Verdict(check, outcome, Level.BLOCK, "n = 0", {}, message, "p:1", 1.0)


def report(*phases: PhaseReport) -> Report:
    info = DatabaseInfo("postgresql://db/civic", "postgresql", "18", "b2", "c3")
    return Report(info, datetime.now(UTC), 1.0, (RunbookReport("orders", "orders.md", "", phases),))


def last(phase: str, *, is_open: bool = True, hours: float | None = 24) -> LastRecord:
    age = None if hours is None else hours * HOUR
    return LastRecord("orders", phase, is_open, 1.8e9, age, None)


def lines(run: Report, *before: LastRecord) -> list[str]:
    return as_text(notice_of(run, compare(run, before))).splitlines()[1:]


@pytest.mark.parametrize(
    ("gate", "before", "said"),
    [
        (Gate.OPEN, [last("ready", is_open=False)], ["Opened: orders/ready: c3, d4 may run"]),
        (Gate.OPEN, [], ["Opened: orders/ready: c3, d4 may run"]),
        (Gate.OPEN, [last("other")], ["Opened: orders/ready: c3, d4 may run"]),
        (Gate.CLOSED, [last("ready")], ["Closed: orders/ready: quiet: no"]),
        (Gate.CLOSED, [], []),
        (Gate.CLOSED, [last("ready", is_open=False)], []),
        (Gate.OPEN, [last("ready", hours=29.9)], []),
        (Gate.OPEN, [last("ready", hours=None)], []),
        (Gate.AHEAD, [last("ready", hours=99)], []),
        (Gate.PAST, [last("ready", hours=99)], []),
        (
            Gate.CLOSED,
            [last("ready", hours=52.4)],
            [
                "Closed: orders/ready: quiet: no",
                "Missing: no record of orders/ready for 52 hours before this one; it is closed",
            ],
        ),
    ],
)
def test_what_is_news(gate: Gate, before: list[LastRecord], said: list[str]) -> None:
    phase = PhaseReport("ready", gate, ("c3", "d4"), (verdict("quiet"),))
    assert lines(report(phase), *before) == said


def test_a_long_story_is_cut_for_people_and_whole_in_the_data() -> None:
    checks = tuple(verdict(f"c{number}", message="x" * 1000) for number in range(9))
    phases = [PhaseReport(f"p{number}", Gate.CLOSED, (), checks) for number in range(25)]
    run = report(*phases)
    notice = notice_of(run, compare(run, [last(phase.name) for phase in phases]))
    text = as_text(notice).splitlines()
    assert (len(text), text[-1]) == (22, "and 5 more")
    assert text[1].endswith("…; and 6 more checks")
    assert len(str(as_slack(notice)["text"])) < 40_000, "Slack's limit"
    data = as_data(notice)
    assert (len(data["changes"]), len(data["changes"][0]["failing"])) == (25, 9)
    assert data["changes"][0]["failing"][0]["message"] == "x" * 1000


def test_what_could_not_be_evaluated_closes_and_nothing_to_ask_is_said() -> None:
    errored = PhaseReport("ready", Gate.CLOSED, (), (verdict("quiet", Outcome.ERRORED, "no such table"),))
    empty = PhaseReport("empty", Gate.CLOSED, (), (verdict("quiet", Outcome.SKIPPED),))
    assert lines(report(errored, empty), last("ready"), last("empty")) == [
        "Closed: orders/ready: quiet: no such table",
        "Closed: orders/empty: nothing was asked",
    ]


def test_a_time_that_python_does_not_know_is_null() -> None:
    phase = PhaseReport("ready", Gate.OPEN, (), ())
    far = LastRecord("orders", "ready", False, 5.7e11, None, None)
    run = report(phase)
    assert (
        as_data(notice_of(run, (Change("orders", phase, True, far),)))["changes"][0]["last_record_at"] is None
    )
