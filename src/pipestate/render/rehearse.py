"""A rehearsal on the terminal and as data: what is certain, what is an estimate, what nobody can know."""

import os
import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pipestate.plural import many
from pipestate.rehearse.felt import (
    STRONGEST,
    Finding,
    Rehearsal,
    Return,
    RevisionFelt,
    TableFelt,
    Verdict,
    spelt,
)
from pipestate.rehearse.trace import Statement

SCHEMA = Path(__file__).with_name("rehearse.schema.json")
SCHEMA_VERSION = 1
NAME_WIDTH = 10


def rehearsal_as_lines(found: Rehearsal, width: int = 80) -> Iterator[str]:
    """Write the result for a terminal of this width."""
    at = f"{found.before or 'base'} → {found.after or 'base'}"
    yield from _wrapped(f"{found.clone}  {found.server}  {at} in {duration(found.duration_ms)}", "", width)
    if found.noise_ms:
        floor = duration(found.noise_floor_ms)
        said = f"An empty revision shows waits of {duration(found.noise_ms)}: below {floor} it is noise."
        yield from _wrapped(said, "", width)
    for revision in found.revisions:
        yield ""
        yield from _revision(found, revision, width)
    yield ""
    for line in _notes(found):
        yield from _wrapped(line, "", width)
    for finding in found.findings:
        yield from _wrapped(_finding(finding), "", width)
    if found.returned is not None:
        for line in _return(found.returned):
            yield from _wrapped(line, "", width)
    yield from _wrapped(closing(found), "", width)


def _revision(found: Rehearsal, revision: RevisionFelt, width: int) -> Iterator[str]:
    head = f"{revision.revision}  {near(revision.path)}  {duration(revision.duration_ms)}"
    yield from _wrapped(head, "", width)
    for gate in revision.gates:
        failing = f": {', '.join(gate.failing)}" if gate.failing else ""
        passed = ", passed for the rehearsal" if gate.state != "open" else ""
        yield from _named("gate", f"{gate.gate} is {gate.state}{failing}{passed}", width)
    shown = [table for table in revision.tables if _is_worth_a_line(table, found.noise_floor_ms)]
    for table in shown:
        yield from _table(found, table, width)
    if not shown:
        if not found.locks_file:
            yield "  nobody waits for a table that was there before"
        if revision.slowest is not None:
            yield from _named("time", _statement(revision.slowest), width)


def _is_worth_a_line(table: TableFelt, floor: float) -> bool:
    weak = all(mode in ("RowShareLock", "RowExclusiveLock") for mode in table.modes)
    return not weak or table.stall_ms >= floor


def _table(found: Rehearsal, table: TableFelt, width: int) -> Iterator[str]:
    yield from _wrapped(f"{table.table}  {many(table.rows, 'row')}, {size(table.bytes)}", "  ", width)
    taken = f", taken at {_place(table.taken_by)}" if table.taken_by else ""
    rewritten = "rewritten" if table.rewritten else "not rewritten"
    yield from _named("certain", f"{spelt(table.modes[0])}{taken}; {rewritten}{_bound(table)}", width)
    yield from _named("estimate", "; ".join(_estimates(table, found.noise_floor_ms)), width)
    if table.spent_by is not None and table.stall_ms >= found.noise_floor_ms:
        yield from _named("time", _statement(table.spent_by), width)
    if STRONGEST in table.modes:
        yield from _named("unknown", _unknown(found, table), width)


def _bound(table: TableFelt) -> str:
    if STRONGEST not in table.modes or table.lock_timeout_ms is None:
        return ""
    if table.unbounded:
        return "; waiting for it is not bounded: no lock_timeout"
    return f"; waiting for it is bounded: lock_timeout {duration(table.lock_timeout_ms)}"


def _estimates(table: TableFelt, floor: float) -> Iterator[str]:
    yield f"held {duration(table.held_ms)}"
    waits = (("a writer", table.writer_ms), ("a reader", table.reader_ms), ("rows", table.rows_ms))
    for who, waited in waits:
        if waited is None:
            yield f"{who} not measured"
        elif waited < floor:
            yield f"{who}: noise"
        else:
            yield f"rows locked {duration(waited)}" if who == "rows" else f"{who} waits {duration(waited)}"
    if table.queued_ms:
        yield f"it queued for about {duration(table.queued_ms)} itself"


def _unknown(found: Rehearsal, table: TableFelt) -> str:
    plus = f"plus the time until production's oldest transaction on {table.table} ends"
    if found.production is None:
        return f"{plus}; no production URL was given"
    age = found.oldest.get(table.table)
    return f"{plus}; at this moment there is none" if age is None else f"{plus}: it has lasted {age:.0f} s"


def _notes(found: Rehearsal) -> Iterator[str]:
    if found.locks_file:
        yield "SQLite: locks are the file's. Whoever writes waits until a revision is over."
    for table in dict.fromkeys(table.table for table in found.tables if table.table in found.not_probed):
        why = found.not_probed[table]
        yield f"Not probed: {table} ({why}); it is judged by how long its lock was held."
    for name in found.autovacuum:
        yield f"An autovacuum of {name} ran meanwhile."
    if found.limit_ms is not None and found.noise_floor_ms > found.limit_ms * 2:
        floor = duration(found.noise_floor_ms)
        yield f"Waits under {floor} cannot be told from noise here: use a quieter machine for this limit."


def _finding(finding: Finding) -> str:
    where = f"{near(finding.source)}: " if finding.source else ""
    return f"{finding.verdict}: {finding.revision}, {where}{finding.table}: it {finding.what}. Instead: {finding.instead}"


def _return(returned: Return) -> Iterator[str]:
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
    if not found.findings:
        return f"Within the limit: the longest wait is {longest}, {limit}."
    over = any(finding.verdict is Verdict.OVER for finding in found.findings)
    return f"{'Over the limit' if over else 'Too close to tell'}: the longest wait is {longest}, {limit}."


def _place(statement: Statement) -> str:
    return near(statement.source) if statement.source else statement.revision


def _statement(statement: Statement) -> str:
    return f"{duration(statement.duration_ms)} in {_place(statement)}: {statement.first_words}"


def _named(name: str, said: str, width: int) -> Iterator[str]:
    indent = " " * (4 + NAME_WIDTH)
    yield from textwrap.wrap(
        said,
        width,
        initial_indent=f"    {name:<{NAME_WIDTH}}",
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _wrapped(said: str, indent: str, width: int) -> Iterator[str]:
    yield from textwrap.wrap(
        said,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def near(source: str) -> str:
    """Name a file as it is called from here."""
    path, _, line = source.rpartition(":") if source.rpartition(":")[2].isdigit() else (source, "", "")
    here = os.path.relpath(path)
    best = path if here.startswith("..") else here
    return f"{best}:{line}" if line else best


def duration(ms: float) -> str:
    """Write a time as people do.

    >>> duration(4.26), duration(740), duration(1234)
    ('4 ms', '740 ms', '1.2 s')
    """
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def size(count: int) -> str:
    """Write a number of bytes as people do.

    >>> size(8192), size(65_000_000)
    ('8 kB', '61 MB')
    """
    if count < 1 << 20:
        return f"{count >> 10} kB"
    return f"{count >> 20:,} MB"


def rehearsal_as_data(found: Rehearsal) -> dict[str, Any]:
    """The same as JSON has it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "ok": found.exit_code == 0,
        "clone": found.clone,
        "server": found.server,
        "before": found.before,
        "after": found.after,
        "duration_ms": round(found.duration_ms, 1),
        "noise_ms": round(found.noise_ms, 1),
        "longest_stall_ms": round(found.longest_stall_ms, 1),
        "max_stall_ms": found.limit_ms,
        "failure": asdict(found.failure) if found.failure else None,
        "revisions": [_revision_as_data(found, revision) for revision in found.revisions],
        "findings": [asdict(finding) for finding in found.findings],
        "there_and_back": _return_as_data(found.returned),
        "not_probed": found.not_probed,
        "autovacuum": list(found.autovacuum),
    }


def _return_as_data(returned: Return | None) -> dict[str, Any] | None:
    if returned is None:
        return None
    failure = asdict(returned.failure) if returned.failure else None
    return {"ok": returned.ok, "back": returned.back, "again": returned.again, "failure": failure}


def _revision_as_data(found: Rehearsal, revision: RevisionFelt) -> dict[str, Any]:
    return {
        "revision": revision.revision,
        "path": str(Path(revision.path)),
        "duration_ms": round(revision.duration_ms, 1),
        "gates": [
            {"gate": gate.gate, "state": gate.state, "failing": list(gate.failing)} for gate in revision.gates
        ],
        "tables": [_table_as_data(found, table) for table in revision.tables],
    }


def _table_as_data(found: Rehearsal, table: TableFelt) -> dict[str, Any]:
    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 1)

    return {
        "table": table.table,
        "rows": table.rows,
        "bytes": table.bytes,
        "modes": [spelt(mode) for mode in table.modes],
        "rewritten": table.rewritten,
        "taken_at": table.taken_by.source if table.taken_by else None,
        "spent_at": table.spent_by.source if table.spent_by else None,
        "bounded": None if STRONGEST not in table.modes else not table.unbounded,
        "lock_timeout_ms": rounded(table.lock_timeout_ms),
        "held_ms": rounded(table.held_ms),
        "queued_ms": rounded(table.queued_ms),
        "writer_ms": rounded(table.writer_ms),
        "reader_ms": rounded(table.reader_ms),
        "rows_ms": rounded(table.rows_ms),
        "stall_ms": rounded(table.stall_ms),
        "noise": table.stall_ms < found.noise_floor_ms,
        "oldest_transaction_s": found.oldest.get(table.table),
    }
