"""A phase on the terminal: its gate, its opening, missing checks, sign-offs, and its last days."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from rich.text import Text

from pipestate.cli.formats.layout import Line, label
from pipestate.cli.formats.verify import GATES, STYLES, without_first_row
from pipestate.core.text import listed, many, plain, written
from pipestate.project.find import Calls
from pipestate.status.model import (
    ClosedRecord,
    DayState,
    Opening,
    OpenStreak,
    PhaseStatus,
    RunbookStatus,
    SignOffStatus,
    Soak,
)
from pipestate.status.opening import days, lasting, on
from pipestate.verify.report import Gate, Outcome, Verdict, shortened

GOOD, BAD, ODD = "green", "bold red", "yellow"
MARKS = {
    DayState.OPEN: ("■", GOOD),
    DayState.CLOSED: ("✗", BAD),
    DayState.MIXED: ("◪", ODD),
    DayState.GAP: ("·", ODD),
    DayState.NONE: (" ", ""),
}
LEGEND = "■ open  ✗ closed  ◪ both  · no record"
BAR = 14
MESSAGE = 150  # `pipestate verify` shows the rest, with evidence
LATE_HOURS = 48  # without a record, the default of most soak checks


def phase_picture(
    runbook: RunbookStatus, phase: PhaseStatus, now: datetime, calls: Calls
) -> tuple[Text, list[Line]]:
    """Draw a phase: its title and its lines; a phase that has not started or is finished has only a title."""
    title = Text().append(f"{plain(runbook.name)}/{plain(phase.name)} ", "bold" if phase.applies else "dim")
    title.append(str(phase.gate), GATES[phase.gate])
    if not phase.applies:
        return title, []
    evaluated = [verdict for verdict in phase.checks if verdict.outcome is not Outcome.SKIPPED]
    passed = sum(verdict.outcome is Outcome.PASSED for verdict in evaluated)
    title.append(f"  {passed} of {len(evaluated)} passed", "dim")
    return title, list(_lines(f"{runbook.name}/{phase.name}", phase, now, calls))


def _lines(address: str, phase: PhaseStatus, now: datetime, calls: Calls) -> Iterator[Line]:
    said = {soak.check for soak in phase.soaks} | {signoff.id for signoff in phase.sign_offs}
    if phase.opens:
        is_open = phase.gate is Gate.OPEN and not phase.obstacles
        revisions = Text(listed(map(plain, phase.opens), most=5))
        yield label("may run" if is_open else "waiting", GOOD if is_open else ODD), revisions
    yield from ((label("refused", BAD), Text(plain(said))) for said in phase.obstacles)
    yield from _soaks(phase, now)
    yield from _wrong(verdict for verdict in phase.missing if verdict.check_id not in said)
    for signoff in phase.sign_offs:
        yield _signoff(address, signoff, now, calls)
    yield from _wrong(phase.warned)
    yield from _records(phase, now)
    if phase.gate is Gate.CLOSED:
        yield label("next"), Text(calls.pipestate(f"gate {address}"), "bold")


def _soaks(phase: PhaseStatus, now: datetime) -> Iterator[Line]:
    """Yield a line for each soak; other missing checks follow the only one, or the latest."""
    messages = {verdict.check_id: verdict.message for verdict in phase.checks}
    several = sum(not soak.passed for soak in phase.soaks) > 1
    rest = Text() if phase.opening is None or several else _also_needs(phase.opening)
    for soak in phase.soaks:
        line = _soak(soak, messages[soak.check], now)
        line = line if soak.passed else line.append_text(rest)
        yield (
            label("soak"),
            line.append(f"; {plain(soak.of or '')} is closed now", BAD) if soak.ends_next else line,
        )
    if several and phase.opening is not None and phase.opening.at is not None:
        when = Text(_earliest(phase.opening.at, now))
        yield label("together"), when.append_text(_also_needs(phase.opening))


def _soak(soak: Soak, message: str, now: datetime) -> Text:
    name = "" if soak.check == "soak" else f"{plain(soak.check)}: "
    counted = soak.days if soak.counts and soak.days is not None else 0.0
    full = min(BAR, int(counted / soak.required * BAR)) if soak.required else BAR
    text = Text(name).append("█" * full, GOOD if full == BAR else ODD).append("░" * (BAR - full), "dim")
    text.append(f" {days(counted)} of {days(soak.required)} days", GOOD if soak.passed else ODD)
    if soak.passed:
        return text
    if not soak.counts:
        text.append(f": {'nothing recorded yet' if soak.days is None else plain(message)}")
    return text if soak.opens_at is None else text.append(f", {_earliest(soak.opens_at, now)}")


def _earliest(at: datetime, now: datetime) -> str:
    return f"earliest {on(at, now)}"


def _also_needs(opening: Opening) -> Text:
    names = [plain(name) for name in opening.waits_for]
    if not names:
        return Text()
    return Text(f"; also needs: {listed(names)}")


def _wrong(verdicts: Iterable[Verdict]) -> Iterator[Line]:
    """List failures; checks with the same message, such as a missing ledger, share a line."""
    found: dict[tuple[str, str], list[str]] = {}
    for verdict in verdicts:
        name = "warned" if verdict.warned else str(verdict.outcome)
        message = verdict.message if len(verdict.message) <= MESSAGE else without_first_row(verdict)
        found.setdefault((name, message), []).append(plain(verdict.check_id))
    for (name, message), ids in found.items():
        text = Text().append(", ".join(ids), "bold").append(f": {plain(shortened(message, MESSAGE))}")
        yield label(name, STYLES[name]), text


def _signoff(address: str, signoff: SignOffStatus, now: datetime, calls: Calls) -> Line:
    name = Text().append(f"{plain(signoff.id)}: ", "bold")
    people = listed(plain(word.person) for word in signoff.words if word.is_valid)
    if signoff.until is not None:
        left = signoff.until - now
        style = ODD if left < signoff.valid_for / 8 else ""
        return label("signed", GOOD), name.append(f"{people}, valid for another {lasting(left)}", style)
    attest = calls.pipestate(f"attest {address}/{signoff.id} --by YOU")
    name.append(f"{_unsigned(signoff, people, now)}\n")
    return label("unsigned", BAD), name.append(attest, "dim")


def _unsigned(signoff: SignOffStatus, people: str, now: datetime) -> str:
    if people:
        return f"{people} signed, {many(signoff.missing, 'more person', 'more people')} must"
    if signoff.words:
        last = signoff.words[0]
        return f"the sign-off of {plain(last.person)} expired {lasting(now - last.until)} ago"
    wanted = f"{signoff.people} people must sign" if signoff.people > 1 else "nobody has signed"
    return f"{wanted} (valid for {written(signoff.valid_for)})"


def _records(phase: PhaseStatus, now: datetime) -> Iterator[Line]:
    if phase.open_streak is not None and phase.open_streak.since is not None:
        open_streak = _open_streak(phase.open_streak, phase.open_streak.since, now)
        ends = "; the gate is closed now: the next record ends this streak"
        yield label("open for"), open_streak.append(ends, BAD) if phase.gate is Gate.CLOSED else open_streak
    if any(day.open or day.closed for day in phase.days):
        strip = Text().join(Text(*MARKS[day.state]) for day in phase.days)
        yield label("days"), strip.append(f"  {phase.days[0].date:%b %d} to today", "dim")
    if phase.last_closed is not None and phase.last_closed.at.date() >= phase.days[0].date:
        yield label("closed"), _closed(phase.last_closed, now)


def _open_streak(open_streak: OpenStreak, since: datetime, now: datetime) -> Text:
    text = Text(f"{lasting(now - since)}, since {on(since, now)}: {many(open_streak.records, 'record')}")
    if open_streak.last_record_at is not None:
        late = (open_streak.hours_since_last_record or 0) > LATE_HOURS
        text.append(f", the last {lasting(now - open_streak.last_record_at)} ago", ODD if late else "")
    if (open_streak.longest_gap_hours or 0) > LATE_HOURS:
        text.append(f", the longest gap {lasting(timedelta(hours=open_streak.longest_gap_hours or 0))}", ODD)
    return text


def _closed(closed: ClosedRecord, now: datetime) -> Text:
    text = Text(f"{on(closed.at, now)}, {lasting(now - closed.at)} ago, by {plain(closed.by)}")
    if len(closed.failures) == 1:
        (failure,) = closed.failures
        return text.append(f": {plain(failure.check)}: {plain(shortened(failure.message, MESSAGE))}")
    names = [plain(failure.check) for failure in closed.failures]
    return text.append(f": {listed(names, most=5)}") if names else text
