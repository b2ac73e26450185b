"""Waiting for a gate, on a clock that nobody has to wait for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.runbook.model import Level
from pipestate.verify.report import DatabaseInfo, Gate, Outcome, PhaseReport, Report, RunbookReport, Verdict
from pipestate.verify.wait import wait_for_opening

LOST = Unreachable("cannot reach postgresql://db")


def verdict(check: str, outcome: Outcome) -> Verdict:
    return Verdict(check, outcome, Level.BLOCK, "n = 0", {}, "…", "p:1", 1.0)


def report(gate: Gate, **checks: Outcome) -> Report:
    phase = PhaseReport("ready", gate, (), tuple(verdict(name, outcome) for name, outcome in checks.items()))
    info = DatabaseInfo("postgresql://db", "postgresql", "18", "a1", "b2")
    return Report(info, datetime.now(UTC), 1.0, (RunbookReport("orders", "orders.md", "", (phase,)),))


OPEN = report(Gate.OPEN, quiet=Outcome.PASSED)
CLOSED = report(Gate.CLOSED, quiet=Outcome.FAILED, soak=Outcome.FAILED)
NEARLY = report(Gate.CLOSED, quiet=Outcome.PASSED, soak=Outcome.FAILED)
ERRORED = report(Gate.CLOSED, quiet=Outcome.ERRORED)
NOT_STARTED = report(Gate.NOT_STARTED, quiet=Outcome.SKIPPED)
FINISHED = report(Gate.FINISHED, quiet=Outcome.SKIPPED)


@dataclass
class World:
    """Answers one after the other, the last one for ever; a question takes a while, and time flies."""

    answers: list[Report | Exception]
    took: float = 0.0
    now: float = 100.0
    pauses: list[float] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)

    def evaluate(self) -> Report:
        self.now += self.took
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.pauses.append(seconds)
        self.now += seconds

    def wait(self, patience_s: float) -> Report:
        clock: Callable[[], float] = lambda: self.now  # noqa: E731
        return wait_for_opening(
            self.evaluate, patience_s, self.reported.append, clock=clock, sleep=self.sleep
        )


def test_a_gate_that_is_open_is_not_waited_for() -> None:
    world = World([OPEN])
    assert world.wait(1800) is OPEN
    assert (world.pauses, world.reported) == ([], [])


def test_it_is_evaluated_until_it_opens_and_what_is_missing_is_said_when_it_changes() -> None:
    world = World([CLOSED, CLOSED, NEARLY, NEARLY, OPEN])
    assert world.wait(1800) is OPEN
    assert world.reported == ["missing: quiet, soak", "missing: soak"]
    assert world.pauses == [15.0] * 4


def test_when_the_time_is_over_it_is_evaluated_once_more() -> None:
    world = World([CLOSED])
    assert world.wait(40) is CLOSED
    assert world.now == 140.0
    assert len(world.pauses) == 40, "a short wait evaluates every second"


def test_a_slow_question_is_not_evaluated_all_the_time() -> None:
    world = World([CLOSED], took=30.0)
    world.wait(600)
    assert set(world.pauses[:-1]) == {120.0}


def test_a_connection_that_is_lost_on_the_way_is_tried_again() -> None:
    world = World([CLOSED, LOST, LOST, CLOSED, OPEN])
    assert world.wait(1800) is OPEN
    assert world.reported == [
        "missing: quiet, soak",
        "cannot reach postgresql://db; trying again",
        "missing: quiet, soak",
    ]


def test_a_connection_that_does_not_come_back_in_time_is_no_answer() -> None:
    with pytest.raises(Unreachable, match="cannot reach postgresql://db"):
        World([CLOSED, LOST]).wait(60)


def test_the_first_question_must_be_answered() -> None:
    world = World([LOST])
    with pytest.raises(Unreachable):
        world.wait(60)
    assert world.pauses == []


def test_what_is_wrong_with_the_project_is_not_waited_for() -> None:
    with pytest.raises(ConfigError):
        World([CLOSED, ConfigError("two version tables")]).wait(60)


def test_a_check_that_errors_may_work_later() -> None:
    world = World([ERRORED, OPEN])
    assert world.wait(60) is OPEN
    assert world.reported == ["missing: quiet (errored)"]
    assert World([ERRORED]).wait(60).exit_code == 3


def test_a_phase_that_has_not_started_may_open_and_a_finished_one_does_not() -> None:
    world = World([NOT_STARTED, OPEN])
    assert world.wait(60) is OPEN
    assert world.reported == ["not evaluated at revision a1"]
    world = World([FINISHED])
    assert (world.wait(60).exit_code, world.pauses) == (2, [])


def test_no_time_at_all_is_one_question() -> None:
    world = World([CLOSED])
    assert (world.wait(0), world.pauses, world.reported) == (CLOSED, [], [])
