"""Notifications: which gates are news, and the lines for people."""

from datetime import UTC, datetime

import pytest

from pipestate.cli.notify import compare
from pipestate.runbook.model import Level
from pipestate.verify.report import DatabaseInfo, Gate, Outcome, PhaseReport, Report, RunbookReport, Verdict


def verdict(check: str, outcome: Outcome = Outcome.FAILED, message: str = "no") -> Verdict:
    return Verdict(check, outcome, Level.BLOCK, "n = 0", {}, message, "p:1", 1.0)


def lines(phase: PhaseReport, was_open: dict[tuple[str, str], bool]) -> list[str]:
    info = DatabaseInfo("postgresql://db/civic", "postgresql", "18", "b2", "c3")
    run = Report(info, datetime.now(UTC), 1.0, (RunbookReport("orders", "orders.md", "", (phase,)),))
    return [str(change) for change in compare(run, was_open)]


READY = ("orders", "ready")


@pytest.mark.parametrize(
    ("gate", "before", "said"),
    [
        (Gate.OPEN, {READY: False}, ["Opened: orders/ready: c3, d4 may run"]),
        (Gate.OPEN, {}, ["Opened: orders/ready: c3, d4 may run"]),
        (Gate.OPEN, {("orders", "other"): True}, ["Opened: orders/ready: c3, d4 may run"]),
        (Gate.OPEN, {READY: True}, []),
        (Gate.CLOSED, {READY: True}, ["Closed: orders/ready: quiet"]),
        (Gate.CLOSED, {}, []),
        (Gate.CLOSED, {READY: False}, []),
        (Gate.NOT_STARTED, {READY: True}, []),
        (Gate.FINISHED, {READY: True}, []),
    ],
)
def test_what_is_news(gate: Gate, before: dict[tuple[str, str], bool], said: list[str]) -> None:
    phase = PhaseReport("ready", gate, ("c3", "d4"), (verdict("quiet", message="<!channel>"),))
    assert lines(phase, before) == said


def test_what_could_not_be_evaluated_closes_and_no_check_is_said() -> None:
    errored = PhaseReport("ready", Gate.CLOSED, (), (verdict("a", Outcome.ERRORED), verdict("b")))
    empty = PhaseReport("ready", Gate.CLOSED, (), (verdict("a", Outcome.SKIPPED),))
    assert lines(errored, {READY: True}) == ["Closed: orders/ready: a, b"]
    assert lines(empty, {READY: True}) == ["Closed: orders/ready: no check was evaluated"]
