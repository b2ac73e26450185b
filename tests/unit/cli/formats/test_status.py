"""The picture of `status`: what it says of a phase, how wide it gets, and that data in it is data."""

import io
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from pipestate.cli.formats.status import print_status
from pipestate.project.find import Calls
from pipestate.runbook.model import Level
from pipestate.status.model import (
    ClosedRecord,
    Day,
    DayState,
    FailedCheck,
    Forced,
    Observed,
    Opening,
    OpenStreak,
    PhaseStatus,
    RecordedSignOff,
    RunbookStatus,
    Shown,
    SignOffStatus,
    Soak,
    Status,
)
from pipestate.verify.report import DatabaseInfo, Gate, Outcome, Verdict

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
DAY = timedelta(days=1)
HOSTILE = "x[/y] [bold]z\x1b[2J\n::error::owned\u202e"


def make_verdict(id: str = "quiet", message: str = "no", **more: Any) -> Verdict:
    return Verdict(id, Outcome.FAILED, Level.BLOCK, "rows = 0", {}, message, "b.md:1", 1.0, **more)


def make_phase(**more: Any) -> PhaseStatus:
    empty = PhaseStatus("ready", Gate.CLOSED, (), ())
    return replace(empty, **more)


def make_status(*phases: PhaseStatus, **more: Any) -> Status:
    info = DatabaseInfo("sqlite:///x", "sqlite", "3.45", "a1", "c3")
    book = RunbookStatus("orders", "Orders", "orders.md", phases)
    return replace(Status(NOW, info, (book,)), **more)


def seen(status: Status, width: int = 100, *, verbose: bool = False) -> str:
    screen = Console(width=width, file=io.StringIO(), no_color=True)
    print_status(status, screen, Calls(), verbose=verbose)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def sentence(phase: PhaseStatus) -> str:
    return " ".join(seen(make_status(phase)).split())


def make_soak(
    id: str = "soak", days: float | None = 3.25, *, waits: timedelta | None = 3 * DAY, **more: Any
) -> Soak:
    since = None if days is None else NOW - days * DAY
    return replace(Soak(id, "orders/one", days, 7.0, since, NOW + waits if waits else None, False), **more)


def make_signoff(
    *words: RecordedSignOff, people: int = 1, missing: int = 1, until: datetime | None = None
) -> SignOffStatus:
    return SignOffStatus("backup", "…", DAY, people, words, missing, until)


def word(person: str, ago: timedelta) -> RecordedSignOff:
    return RecordedSignOff(person, NOW - ago, NOW - ago + DAY, ago < DAY, None)


def test_a_soak_says_how_far_it_is_and_what_else_is_wanted() -> None:
    soaks = (make_soak(),)
    checks = (make_verdict("soak"), make_verdict("quiet", "1 row"))
    said = sentence(make_phase(soaks=soaks, checks=checks, opening=Opening(NOW + 3 * DAY, ("quiet",))))
    assert "3.2 of 7 days, earliest Nov 23 10:00; also needs: quiet" in said
    assert "failed quiet: 1 row" in said
    assert "failed soak" not in said, "its line says it"


def test_several_soaks_open_together() -> None:
    soaks = (make_soak(), make_soak("longer", waits=9 * DAY))
    checks = (make_verdict("soak"), make_verdict("longer"))
    said = sentence(make_phase(soaks=soaks, checks=checks, opening=Opening(NOW + 9 * DAY, ())))
    assert "longer: " in said
    assert said.count("earliest ") == 3
    assert "together earliest Nov 29 10:00" in said


@pytest.mark.parametrize(
    ("soak", "said"),
    [
        (make_soak(days=None, waits=7 * DAY), "0 of 7 days: nothing recorded yet, earliest Nov 27 10:00"),
        (make_soak(days=9.0, since=None, waits=7 * DAY), "0 of 7 days: a long gap, earliest Nov 27 10:00"),
        (make_soak(days=9.0, since=None, waits=None), "0 of 7 days: a long gap"),
        (make_soak(days=9.96, passed=True, waits=None), "9.9 of 7 days"),
        (make_soak(days=6.99), "6.9 of 7 days"),
        (make_soak(ends_next=True), "; orders/one is closed now"),
    ],
)
def test_what_a_soak_says(soak: Soak, said: str) -> None:
    phase = make_phase(soaks=(soak,), checks=(make_verdict("soak", "a long gap"),), opening=Opening(None, ()))
    assert said in sentence(phase)


@pytest.mark.parametrize(
    ("signoff", "said"),
    [
        (
            make_signoff(),
            "unsigned backup: nobody has signed (valid for 24h) pipestate attest orders/ready/backup",
        ),
        (make_signoff(people=2, missing=2), "unsigned backup: 2 people must sign (valid for 24h)"),
        (make_signoff(word("ann", 2 * DAY)), "unsigned backup: the sign-off of ann expired 24 hours ago"),
        (
            make_signoff(word("ann", DAY / 2), people=2),
            "unsigned backup: ann signed, 1 more person must pipestate attest",
        ),
        (
            make_signoff(
                word("ann", DAY / 2), word("ben", DAY / 4), people=2, missing=0, until=NOW + DAY / 2
            ),
            "signed backup: ann and ben, valid for another 12 hours",
        ),
    ],
)
def test_what_a_sign_off_says(signoff: SignOffStatus, said: str) -> None:
    assert said in sentence(make_phase(sign_offs=(signoff,)))


def test_checks_with_the_same_sentence_share_it() -> None:
    checks = tuple(make_verdict(id, "no ledger", **{}) for id in ("one", "two"))
    assert "failed one, two: no ledger" in sentence(make_phase(checks=checks))


def test_a_streak_of_a_phase_that_is_closed_now_is_as_good_as_over() -> None:
    open_streak = OpenStreak(NOW - 9 * DAY, 9.0, 9, 72.0, NOW - DAY, 24.0)
    said = sentence(make_phase(open_streak=open_streak))
    assert (
        "open for 9 days, since Nov 11 10:00: 9 records, the last 24 hours ago, the longest gap 3 days"
        in said
    )
    assert "the gate is closed now: the next record ends this streak" in said
    assert "closed now" not in sentence(make_phase(gate=Gate.OPEN, open_streak=open_streak))


def strip(*states: DayState) -> tuple[Day, ...]:
    first = NOW.date() - (len(states) - 1) * DAY
    return tuple(Day(first + n * DAY, 1, 0, state) for n, state in enumerate(states))


def test_the_strip_can_be_read_without_colours() -> None:
    days = strip(DayState.NONE, DayState.OPEN, DayState.CLOSED, DayState.GAP, DayState.MIXED, DayState.NONE)
    written = seen(make_status(make_phase(days=days)))
    assert " ■✗·◪   Nov 15 to today" in written
    assert "■ open  ✗ closed  ◪ both  · no record" in written


def test_phases_that_have_not_started_or_are_finished_are_counted_and_listed_on_request() -> None:
    phases = [
        make_phase(name=name, gate=gate) for name, gate in (("a", Gate.FINISHED), ("b", Gate.NOT_STARTED))
    ]
    assert "Gates: 1 not started, 1 finished (--verbose lists each)" in seen(make_status(*phases))
    assert "orders/a finished\norders/b not started\n" in seen(make_status(*phases), verbose=True)


def test_the_answer_comes_first_and_closed_phases_before_open_ones() -> None:
    open_streak = OpenStreak(NOW - 9 * DAY, 9.0, 9, 72.0, NOW - DAY, 24.0)
    passed = replace(make_verdict(), outcome=Outcome.PASSED)
    opened = make_phase(name="early", gate=Gate.OPEN, open_streak=open_streak, checks=(passed,))
    lines = seen(make_status(opened, make_phase(checks=(make_verdict(),)))).splitlines()
    assert lines[0] == "Closed: orders/ready (1 of 1 check failed)."
    assert lines[1].startswith("x, sqlite 3.45, at revision a1 of c3, Nov 20 10:00 UTC")
    assert lines.index("orders/ready closed  0 of 1 passed") < lines.index("orders/early open  1 of 1 passed")
    assert "  next      pipestate gate orders/ready" in [line.rstrip() for line in lines]
    assert seen(make_status(opened)).startswith("Open: orders/early.\n")


def test_where_nothing_applies_the_next_step_is_named() -> None:
    said = seen(make_status(make_phase(gate=Gate.NOT_STARTED)))
    assert said.startswith("Nothing was checked: no phase applies at revision a1. Next: pipestate plan\n")
    assert "No runbook here has `default: true`" in seen(replace(make_status(), runbooks=()))


def full(text: str) -> Status:
    """A text from outside in every place."""
    phase = make_phase(
        checks=(make_verdict("soak", text), make_verdict("quiet", text)),
        soaks=(make_soak(days=9.0, since=None, of=text, ends_next=True),),
        sign_offs=(
            make_signoff(word(text, 2 * DAY)),
            make_signoff(word(text, DAY / 2), missing=0, until=NOW),
        ),
        last_closed=ClosedRecord(NOW - DAY, text, (FailedCheck(text, "failed", text),)),
        days=strip(*[DayState.OPEN] * 14),
        opening=Opening(NOW, (text,)),
    )
    return make_status(
        phase,
        observations=(Observed(text, 1.0, NOW, DAY, text, text, (), (f"b/{text}",)),),
        forced=Forced(text, text, NOW, text, text, text, (FailedCheck(text, "failed", text),)),
        views=(Shown("v", ({text: text, "n": "1"},), None, 1), Shown("w", (), text)),
        no_ledger=text,
    )


@pytest.mark.parametrize("width", [60, 80, 100])
def test_data_is_data_and_no_line_is_too_wide(width: int) -> None:
    written = seen(full(HOSTILE), width)
    assert not re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", written)
    assert not re.search(r"^\s*::", written, re.MULTILINE)
    assert "[bold]z" in written
    assert [line for line in written.splitlines() if len(line) > width] == []
