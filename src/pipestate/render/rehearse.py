"""A rehearsal on the terminal: what is certain, what is an estimate, what nobody can know."""

from collections.abc import Iterator

from pipestate.plural import duration
from pipestate.rehearse.felt import STRONGEST, Rehearsal, RevisionFelt, TableFelt, spelt
from pipestate.render import rehearse_words as words

NAME_WIDTH = 10


def rehearsal_as_lines(found: Rehearsal, width: int = 80) -> Iterator[str]:
    """Write the result for a terminal of this width."""
    yield from _wrapped(words.head(found), "", width)
    if found.noise_ms:
        yield from _wrapped(words.noise(found), "", width)
    for revision in found.revisions:
        yield ""
        yield from _revision(found, revision, width)
    yield ""
    for line in _below(found):
        yield from _wrapped(line, "", width)


def _below(found: Rehearsal) -> Iterator[str]:
    yield from words.notes(found)
    for asked in found.phases:
        yield f"Gate {words.phase(asked)}"
    for finding in found.findings:
        yield words.finding(finding)
    if found.returned is not None:
        yield from words.way_back(found.returned)
    yield words.closing(found)


def _revision(found: Rehearsal, revision: RevisionFelt, width: int) -> Iterator[str]:
    head = f"{revision.revision}  {words.near(revision.path)}  {duration(revision.duration_ms)}"
    yield from _wrapped(head, "", width)
    for gate in revision.gates:
        yield from _named("gate", words.gate(gate), width)
    shown = [table for table in revision.tables if is_worth_a_line(table, found.noise_floor_ms)]
    for table in shown:
        yield from _table(found, table, width)
    if not shown:
        if not found.locks_file:
            yield "  nobody waits for a table that was there before"
        if revision.slowest is not None:
            yield from _named("time", words.spent(revision.slowest), width)


def is_worth_a_line(table: TableFelt, floor: float) -> bool:
    """Say whether a table is shown: not where it was only written to, and nobody would have noticed."""
    weak = all(mode in ("RowShareLock", "RowExclusiveLock") for mode in table.modes)
    return not weak or table.stall_ms >= floor or table.scale is None


def _table(found: Rehearsal, table: TableFelt, width: int) -> Iterator[str]:
    yield from _wrapped(f"{table.table}  {words.rows(table)}", "  ", width)
    yield from _named("certain", "; ".join(_certain(table)), width)
    yield from _named("estimate", "; ".join(words.estimates(table, found.noise_floor_ms)), width)
    if table.spent_by is not None and table.stall_ms >= found.noise_floor_ms:
        yield from _named("time", words.spent(table.spent_by), width)
    if STRONGEST in table.modes:
        yield from _named("unknown", words.unknown(found, table), width)


def _certain(table: TableFelt) -> Iterator[str]:
    taken = f", taken at {words.place(table.taken_by)}" if table.taken_by else ""
    yield f"{spelt(table.modes[0])}{taken}"
    yield "rewritten" if table.rewritten else "not rewritten"
    if bound := words.bound(table):
        yield bound


def _named(name: str, said: str, width: int) -> Iterator[str]:
    indent = " " * (4 + NAME_WIDTH)
    yield from words.filled(said, f"    {name:<{NAME_WIDTH}}", indent, width)


def _wrapped(said: str, indent: str, width: int) -> Iterator[str]:
    yield from words.filled(said, indent, f"{indent}  ", width)
