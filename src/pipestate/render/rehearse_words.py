"""The sentences of a rehearsal, which the terminal and Markdown share."""

import os
import textwrap
from collections.abc import Iterator

from pipestate.plural import duration, many, size
from pipestate.rehearse.felt import (
    MOST_SCALED,
    STRONGEST,
    LimitVerdict,
    OverLimit,
    PhaseAsked,
    Rehearsal,
    Return,
    TableFelt,
)
from pipestate.rehearse.trace import GateAsked, Statement
from pipestate.verify.report import Gate, PhaseReport

OUTCOMES = {
    LimitVerdict.OVER: "Over the limit",
    LimitVerdict.UNKNOWN: "Not known for production",
    LimitVerdict.TOO_CLOSE: "Too close to tell",
    LimitVerdict.WITHIN: "Within the limit",
}


def head(found: Rehearsal) -> str:
    """Name the clone, its server, and the way that was gone."""
    return f"{found.clone}  {way(found)}"


def way(found: Rehearsal) -> str:
    at = f"{found.before or 'base'} → {found.after or 'base'}"
    return f"{found.server}  {at} in {duration(found.duration_ms)}"


def noise(found: Rehearsal) -> str:
    floor = duration(found.noise_floor_ms)
    return f"An empty revision shows waits of {duration(found.noise_ms)}: below {floor} it is noise."


def gate(asked: GateAsked) -> str:
    """Say how a revision found its gate."""
    failing = f": {', '.join(asked.failing)}" if asked.failing else ""
    passed = ", passed for the rehearsal" if asked.state != "open" else ""
    return f"{asked.gate} is {asked.state}{failing}{passed}"


def rows(table: TableFelt) -> str:
    """Say how large a table is, and how much larger in production."""
    here = f"{many(table.rows, 'row')}, {size(table.bytes)}"
    if table.scale == 1.0 or table.production_rows is None:
        return here
    times = f"estimates × {table.scale:.1f}" if table.scale else f"more than {MOST_SCALED:.0f} × is a guess"
    return f"{here}; in production {table.production_rows:,} rows: {times}"


def bound(table: TableFelt) -> str:
    """Say whether waiting for ACCESS EXCLUSIVE is bounded, and whether that was tried or read."""
    if STRONGEST not in table.modes:
        return ""
    if table.bounded is None:
        return "whether waiting for it is bounded is not known"
    said = "waiting for it is bounded" if table.bounded else "waiting for it is not bounded"
    return f"{said} ({_how_known(table)})"


def _how_known(table: TableFelt) -> str:
    limit = duration(table.lock_timeout_ms) if table.lock_timeout_ms else "none"
    if table.met is None:
        return f"read from lock_timeout: {limit}"
    if table.met.gave_up:
        return f"tried: it gave up after {duration(table.met.waited_ms)}"
    more = f", lock_timeout {limit}" if table.bounded else ""
    return f"tried: it still waited after {duration(table.met.waited_ms)}{more}"


def estimates(table: TableFelt, floor: float) -> Iterator[str]:
    """Say how long the lock was held and who would have waited for how long."""
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


def figure(table: TableFelt, ms: float) -> str:
    """Write an estimate: scaled to production's rows, with the clone's figure beside it."""
    if table.scale is None:
        return f"{duration(ms)} here, unknown in production"
    here = duration(ms)
    return here if table.scale == 1.0 else f"{duration(ms * table.scale)} ({here} here)"


def unknown(found: Rehearsal, table: TableFelt) -> str:
    """Say what nobody can know: how long somebody in production will be in the way."""
    plus = f"plus the time until production's oldest transaction on {table.table} ends"
    if found.production is None:
        return f"{plus}; no production URL was given"
    age = found.oldest.get(table.table)
    return f"{plus}; at this moment there is none" if age is None else f"{plus}: it has lasted {age:.0f} s"


def notes(found: Rehearsal) -> Iterator[str]:
    """Say what limits the whole of it."""
    if found.locks_file:
        yield "SQLite: locks are the file's. Whoever writes waits until a revision is over."
    if found.not_tried is not None:
        yield f"No patient reader was met ({found.not_tried}): bounds are read from lock_timeout."
    for table in dict.fromkeys(table.table for table in found.tables if table.table in found.not_probed):
        why = found.not_probed[table]
        yield f"Not probed: {table} ({why}); it is judged by how long its lock was held."
    for name in found.autovacuum:
        yield f"An autovacuum of {name} ran meanwhile."
    if found.limit_ms is not None and found.noise_floor_ms > found.limit_ms * 2:
        floor = duration(found.noise_floor_ms)
        yield f"Waits under {floor} cannot be told from noise here: use a quieter machine for this limit."


def phase(asked: PhaseAsked) -> str:
    """Say how a gate stood before the upgrade and after it."""
    before, after = stand(asked.before), stand(asked.after)
    return (
        f"{asked.phase}: {before}, as before"
        if before == after
        else f"{asked.phase}: {before} before, {after} after"
    )


def stand(found: PhaseReport) -> str:
    """Say how a gate stands, with the checks that went wrong."""
    if found.gate not in (Gate.OPEN, Gate.CLOSED):
        return str(found.gate)
    wrong = [verdict.check_id for verdict in found.checks if verdict.closes]
    warned = [f"{verdict.check_id} warns" for verdict in found.checks if verdict.warned]
    names = ", ".join([*wrong, *warned])
    return f"{found.gate} ({names})" if names else str(found.gate)


def finding(each: OverLimit) -> str:
    """Say what is wrong, where, and what to write instead."""
    where = f"{near(each.source)}: " if each.source else ""
    return f"{each.verdict}: {each.revision}, {where}{each.table}: it {each.what}. Instead: {each.instead}"


def way_back(returned: Return) -> Iterator[str]:
    """Say what was another after the way back, and after the second upgrade."""
    for difference in returned.back:
        yield f"After the way back: {difference}."
    for difference in returned.again:
        yield f"After the second upgrade, unlike after the first: {difference}."
    if returned.failure is not None:
        where = f" ({near(returned.failure.source)})" if returned.failure.source else ""
        yield f"The way there and back failed{where}: {returned.failure.message}."
    elif returned.ok:
        yield "There and back: definitions and rows are as before, and the second upgrade gives the same."


def closing(found: Rehearsal) -> str:
    """Say in one sentence how it ended."""
    if found.failure is not None:
        where = f" ({near(found.failure.source)})" if found.failure.source else ""
        at = found.after or "base"
        return (
            f"Failed{where}: {found.failure.message}. The clone is at {at} now, production was not touched."
        )
    longest = duration(found.longest_stall_ms)
    if found.longest_stall_ms < found.noise_floor_ms:
        longest = f"not measurable (under {duration(found.noise_floor_ms)})"
    if found.limit_ms is None:
        return f"The longest wait is {longest}. --max-stall 500ms makes this a verdict."
    limit = f"the limit is {duration(found.limit_ms)}"
    return f"{OUTCOMES[worst(found)]}: the longest wait is {longest}, {limit}."


def worst(found: Rehearsal) -> LimitVerdict:
    """Find the worst verdict of all findings."""
    verdicts = {each.verdict for each in found.findings}
    return next((each for each in OUTCOMES if each in verdicts), LimitVerdict.WITHIN)


def place(statement: Statement) -> str:
    return near(statement.source) if statement.source else statement.revision


def spent(statement: Statement) -> str:
    """Say where the time went."""
    return f"{duration(statement.duration_ms)} in {place(statement)}: {statement.first_words}"


def near(source: str) -> str:
    """Name a file as it is called from here."""
    path, _, line = source.rpartition(":") if source.rpartition(":")[2].isdigit() else (source, "", "")
    here = os.path.relpath(path)
    best = path if here.startswith("..") else here
    return f"{best}:{line}" if line else best


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
