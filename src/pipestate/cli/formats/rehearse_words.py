"""Sentences of a rehearsal, shared by the terminal and Markdown."""

import textwrap
from collections.abc import Iterator
from pathlib import Path

from pipestate.core.text import duration, many, shorter_path, size
from pipestate.rehearse.child_process import GateOutcome, Statement
from pipestate.rehearse.impact import (
    MOST_SCALED,
    STRONGEST,
    LimitFinding,
    LimitVerdict,
    Rehearsal,
    Return,
    TableImpact,
)
from pipestate.rehearse.writes import BrokenWrite
from pipestate.verify.report import Gate, PhaseReport

OUTCOMES = {
    LimitVerdict.OVER: "Over the limit",
    LimitVerdict.UNKNOWN: "Not known for production",
    LimitVerdict.TOO_CLOSE: "Too close to tell",
    LimitVerdict.WITHIN: "Within the limit",
}

MOST_NAMED = 5


def way(found: Rehearsal) -> str:
    """Name the server, and the revisions before and after."""
    at = f"{found.before or 'base'} → {found.after or 'base'}"
    return f"{found.server}  {at} in {duration(found.duration_ms)}"


def noise(found: Rehearsal) -> str:
    floor = duration(found.noise_floor_ms)
    return f"An empty revision shows waits of {duration(found.noise_ms)}; waits below {floor} count as noise."


def gate(asked: GateOutcome) -> str:
    """Describe the state of a revision's gate."""
    failing = f": {', '.join(asked.failing)}" if asked.failing else ""
    passed = "; the rehearsal ignored it" if asked.state != "open" else ""
    return f"{asked.gate} is {asked.state}{failing}{passed}"


def rows(table: TableImpact) -> str:
    """Write the size of a table, and its rows in production."""
    here = f"{many(table.rows, 'row')}, {size(table.bytes)}"
    if table.scale == 1.0 or table.production_rows is None:
        return here
    times = f"estimates × {table.scale:.1f}" if table.scale else f"more than {MOST_SCALED:.0f} × is a guess"
    return f"{here}; in production {table.production_rows:,} rows: {times}"


def bound(table: TableImpact) -> str:
    """State whether waiting for ACCESS EXCLUSIVE is bounded, and whether that was tested or read."""
    if STRONGEST not in table.modes:
        return ""
    if table.bounded is None:
        return "whether waiting for it is bounded is not known"
    said = "waiting for it is bounded" if table.bounded else "waiting for it is not bounded"
    return f"{said} ({_how_known(table)})"


def _how_known(table: TableImpact) -> str:
    limit = duration(table.lock_timeout_ms) if table.lock_timeout_ms else "none"
    if table.encounter is None:
        return f"read from lock_timeout: {limit}"
    if table.encounter.gave_up:
        return f"tried: it gave up after {duration(table.encounter.waited_ms)}"
    more = f", lock_timeout {limit}" if table.bounded else ""
    return f"tried: it still waited after {duration(table.encounter.waited_ms)}{more}"


def estimates(table: TableImpact, floor: float) -> Iterator[str]:
    """Write how long the lock was held, and how long other sessions would have waited."""
    yield f"held {figure(table, table.held_ms)}"
    waits = (("a writer", table.writer_ms), ("a reader", table.reader_ms), ("rows", table.rows_ms))
    for who, waited in waits:
        if waited is None:
            yield f"{who} not measured"
        elif waited < floor:
            yield f"{who}: noise"
        else:
            yield f"{'rows locked' if who == 'rows' else f'{who} waits'} {figure(table, waited)}"
    if table.queued_ms:
        yield f"it queued for about {duration(table.queued_ms)} itself"


def figure(table: TableImpact, ms: float) -> str:
    """Write an estimate: scaled to production's rows, with the clone's figure beside it."""
    if table.scale is None:
        return f"{duration(ms)} here, unknown in production"
    here = duration(ms)
    return here if table.scale == 1.0 else f"{duration(ms * table.scale)} ({here} here)"


def unknown(found: Rehearsal, table: TableImpact) -> str:
    """Write the unpredictable part: the remaining time of production's oldest transaction."""
    plus = f"plus the time until production's oldest transaction on {table.table} ends"
    if found.production is None:
        return f"{plus}; no production URL was given"
    age = found.oldest.get(table.table)
    return f"{plus}; at this moment there is none" if age is None else f"{plus}: it has lasted {age:.0f} s"


def notes(found: Rehearsal) -> Iterator[str]:
    """List the limits of the whole rehearsal."""
    if found.locks_file:
        yield "SQLite: locks are the file's. Whoever writes waits until a revision is over."
    if found.not_tried is not None:
        yield f"No blocking reader was used ({found.not_tried}): bounds are read from lock_timeout."
    for table in dict.fromkeys(table.table for table in found.tables if table.table in found.not_probed):
        why = found.not_probed[table]
        yield f"Not probed: {table} ({why}); it is judged by how long its lock was held."
    for name in found.autovacuum:
        yield f"An autovacuum of {name} ran meanwhile."
    if found.limit_ms is not None and found.noise_floor_ms > found.limit_ms * 2:
        floor = duration(found.noise_floor_ms)
        yield f"Waits under {floor} are noise here: use a quieter machine for this limit."


def phases(found: Rehearsal) -> Iterator[str]:
    """Write each gate that the upgrade changed, before and after; count the others."""
    states = [(asked.phase, stand(asked.before), stand(asked.after)) for asked in found.phases]
    for name, before, after in states:
        if before != after:
            yield f"Gate {name}: {before} before, {after} after"
    if same := sum(before == after for _, before, after in states):
        yield f"{many(same, 'gate')} {'is as it was' if same == 1 else 'are as they were'}."


def stand(found: PhaseReport) -> str:
    """Write the state of a gate, with its failed checks and warnings."""
    if found.gate not in (Gate.OPEN, Gate.CLOSED):
        return str(found.gate)
    wrong = [verdict.check_id for verdict in found.checks if verdict.closes]
    warned = [f"{verdict.check_id} warns" for verdict in found.checks if verdict.warned]
    names = ", ".join([*wrong, *warned])
    return f"{found.gate} ({names})" if names else str(found.gate)


def finding(each: LimitFinding) -> str:
    """Write a finding: the problem, its place, and the remedy."""
    where = f"{near(each.source)}: " if each.source else ""
    return f"{each.verdict}: {each.revision}, {where}{each.table}: it {each.what}. Instead: {each.instead}"


def writes(found: Rehearsal) -> Iterator[str]:
    """Count the tables of the write test, and name those without a row."""
    tried, empty = found.writes.tried, found.writes.empty
    if tried:
        yield f"Writes: one row of {many(tried, 'table')} was updated, inserted and deleted, and rolled back."
    if empty:
        more = f" and {len(empty) - MOST_NAMED} more" if len(empty) > MOST_NAMED else ""
        yield f"Not written to, because they are empty: {', '.join(empty[:MOST_NAMED])}{more}."


def write(broken: BrokenWrite) -> str:
    """Describe a write that worked before and fails now: its role and the reason."""
    roles = f" as {', '.join(broken.roles)}" if broken.roles else ""
    return f"{broken.act} of a row of {broken.table}{roles} worked before and fails now: {broken.error}"


def way_back(returned: Return) -> Iterator[str]:
    """Name the differences after the downgrade, and after the second upgrade."""
    for difference in returned.back:
        yield f"After the downgrade: {difference}."
    for difference in returned.again:
        yield f"After the second upgrade, unlike after the first: {difference}."
    if returned.failure is not None:
        where = f" ({near(returned.failure.source)})" if returned.failure.source else ""
        yield f"The way there and back failed{where}: {returned.failure.message}."
    elif returned.ok:
        yield "There and back: definitions and rows are as before, and the second upgrade gives the same."


def closing(found: Rehearsal) -> str:
    """Summarise the end of the rehearsal in one sentence."""
    if found.failure is not None:
        where = f" ({near(found.failure.source)})" if found.failure.source else ""
        at = found.after or "base"
        return (
            f"Failed{where}: {found.failure.message}. The clone is at {at} now, production was not touched."
        )
    broken = len(found.writes.broken)
    before = f"Broken: {many(broken, 'write')} that worked before. " if broken else ""
    longest = duration(found.longest_stall_ms)
    if found.longest_stall_ms < found.noise_floor_ms:
        longest = f"not measurable (under {duration(found.noise_floor_ms)})"
    if found.limit_ms is None:
        return f"{before}The longest wait is {longest}. --max-stall 500ms makes this a verdict."
    limit = f"the limit is {duration(found.limit_ms)}"
    return f"{before}{OUTCOMES[worst(found)]}: the longest wait is {longest}, {limit}."


def worst(found: Rehearsal) -> LimitVerdict:
    """Find the worst verdict of all findings."""
    verdicts = {each.verdict for each in found.findings}
    return next((each for each in OUTCOMES if each in verdicts), LimitVerdict.WITHIN)


def place(statement: Statement, file: str) -> str:
    """Write the line in this file, the revision's own; else the path of another one."""
    if statement.source is None:
        return statement.revision
    path, line = _path_and_line(statement.source)
    if Path(path).resolve() != Path(file).resolve():
        return near(statement.source)
    return f"line {line}" if line else ""


def spent(statement: Statement, file: str) -> str:
    """Name the statement that took the time."""
    where = place(statement, file)
    return f"{duration(statement.duration_ms)}{f' in {where}' if where else ''}: {statement.first_words}"


def near(source: str) -> str:
    """Write a path relative to the current directory, or the absolute path if it is shorter."""
    path, line = _path_and_line(source)
    best = shorter_path(path)
    return f"{best}:{line}" if line else best


def _path_and_line(source: str) -> tuple[str, str]:
    path, _, line = source.rpartition(":")
    return (path, line) if path and line.isdigit() else (source, "")


def filled(said: str, first: str, later: str, width: int) -> Iterator[str]:
    """Break a sentence into lines of this width, between words; `first` and `later` are their indents."""
    yield from textwrap.wrap(
        said,
        width,
        initial_indent=first,
        subsequent_indent=later,
        break_on_hyphens=False,
        break_long_words=False,
    )
