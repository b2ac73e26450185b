"""Rehearsal and `compat` on the terminal and as Markdown: certain results, estimates, and unknowns."""

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pipestate.cli.formats.json import VERSION, as_plain
from pipestate.core.text import duration, many, markdown, plain_lines, size
from pipestate.database.urls import database_name
from pipestate.rehearse.impact import (
    MOST_SCALED,
    STRONGEST,
    LimitVerdict,
    Rehearsal,
    RevisionImpact,
    TableImpact,
    spelt,
)

if TYPE_CHECKING:
    from pipestate.rehearse.child_process import Failure, Statement
    from pipestate.rehearse.compat import Compat, StatementResult

NAME_WIDTH = 10
MARKS = {LimitVerdict.TOO_CLOSE: "⚠️", LimitVerdict.UNKNOWN: "❓", LimitVerdict.OVER: "❌"}
OUTCOMES = {
    LimitVerdict.OVER: "Over the limit",
    LimitVerdict.UNKNOWN: "Not known for production",
    LimitVerdict.TOO_CLOSE: "Too close to tell",
    LimitVerdict.WITHIN: "Within the limit",
}
LONGEST = 100
SHOWN = 10
MOST_NAMED = 5


def rehearsal_as_lines(found: Rehearsal, width: int = 80) -> Iterator[str]:
    """Write the result for a terminal of this width: the answer, the findings, then the details."""
    for line in _answer(found):
        yield from _wrapped(line, "", width)
    yield ""
    yield from _details(found, width)


def rehearsal_as_markdown(found: Rehearsal) -> str:
    """Write a comment for a pull request."""
    judged = found.exit_code == 0 or (found.findings and not found.writes.broken and not found.failure)
    verdict = _worst(found) if judged else LimitVerdict.OVER
    return _comment(MARKS.get(verdict, "✅"), "rehearse", _answer(found), _details(found, LONGEST))


def _comment(mark: str, command: str, answer: Iterator[str], details: Iterator[str]) -> str:
    """Write the answer as a heading and a list, and the details as on a terminal; text of the database is literal."""
    first, *others = (markdown(line) for line in answer)
    code = plain_lines("\n".join(details)).replace("`", "ˋ")
    listed = ["", *(f"- {line}" for line in others)] if others else []
    shown = ["", "```text", code, "```"] if code else []
    return "\n".join([f"### {mark} pipestate {command}: {first}", *listed, *shown])


def _answer(found: Rehearsal) -> Iterator[str]:
    yield _summary(found)
    for each in found.findings:
        where = f"{each.source}: " if each.source else ""
        yield f"{each.verdict}: {each.revision}, {where}{each.table}: it {each.what}. Instead: {each.instead}"
    for broken in found.writes.broken:
        roles = f" as {', '.join(broken.roles)}" if broken.roles else ""
        what = f"{broken.act} of a row of {broken.table}{roles}"
        yield f"broken: {what} worked before and fails now: {broken.error}"
    if found.returned is not None:
        for difference in found.returned.back:
            yield f"After the downgrade: {difference}."
        for difference in found.returned.again:
            yield f"After the second upgrade, unlike after the first: {difference}."
        if found.returned.failure is not None:
            yield _failed("The way there and back failed", found.returned.failure) + "."
        elif found.returned.ok:
            yield "There and back: definitions and rows are as before, and the second upgrade gives the same."
    if found.findings or found.writes.broken:
        yield "Next: change the lines that are named here, then rehearse again"


def _failed(what: str, failure: "Failure") -> str:
    return f"{what}{f' ({failure.source})' if failure.source else ''}: {failure.message}"


def _summary(found: Rehearsal) -> str:
    """Summarise the rehearsal in one sentence."""
    if found.failure is not None:
        at = found.after or "base"
        return f"{_failed('Failed', found.failure)}. The clone is at {at} now, production was not touched."
    broken = len(found.writes.broken)
    before = f"Broken: {many(broken, 'write')} that worked before. " if broken else ""
    longest = duration(found.longest_wait_ms)
    if found.longest_wait_ms < found.measurable_ms:
        longest = f"not measurable (under {duration(found.measurable_ms)})"
    if found.limit_ms is None:
        return f"{before}The longest wait is {longest}. No limit set. Add --max-wait 500ms to pass or fail."
    limit = f"the limit is {duration(found.limit_ms)}"
    return f"{before}{OUTCOMES[_worst(found)]}: the longest wait is {longest}, {limit}."


def _worst(found: Rehearsal) -> LimitVerdict:
    verdicts = {each.verdict for each in found.findings}
    return next((each for each in OUTCOMES if each in verdicts), LimitVerdict.WITHIN)


def _details(found: Rehearsal, width: int) -> Iterator[str]:
    kind, _, url = found.clone.rpartition(" ")
    clone = f"{kind} {database_name(url)}".strip()
    at = f"{found.before or 'base'} → {found.after or 'base'}"
    yield from _wrapped(f"{clone}  {found.server}  {at} in {duration(found.duration_ms)}", "", width)
    if found.idle_wait_ms:
        idle, floor = duration(found.idle_wait_ms), duration(found.measurable_ms)
        said = f"Without revisions others wait up to {idle}; waits below {floor} are too small to measure."
        yield from _wrapped(said, "", width)
    for revision in found.revisions:
        yield ""
        yield from _revision(found, revision, width)
    if notes := list(_notes(found)):
        yield ""
    for line in notes:
        yield from _wrapped(line, "", width)


def _revision(found: Rehearsal, revision: RevisionImpact, width: int) -> Iterator[str]:
    head = f"{revision.revision}  {revision.path}  {duration(revision.duration_ms)}"
    yield from _wrapped(head, "", width)
    for gate in revision.gates:
        failing = f": {', '.join(gate.failing)}" if gate.failing else ""
        passed = "; the rehearsal ignored it" if gate.state != "open" else ""
        yield from _named("gate", f"{gate.gate} is {gate.state}{failing}{passed}", width)
    shown = [table for table in revision.tables if _is_worth_a_line(table, found.measurable_ms)]
    for table in shown:
        yield from _table(found, revision, table, width)
    if not shown:
        if not found.locks_file:
            yield "  no session waits for an existing table"
        if revision.slowest is not None:
            yield from _named("time", _spent(revision.slowest, revision.path), width)


def _is_worth_a_line(table: TableImpact, floor: float) -> bool:
    """Tell whether a table is shown: skip those with short, weak write locks."""
    weak = all(mode in ("RowShareLock", "RowExclusiveLock") for mode in table.modes)
    return not weak or table.wait_ms >= floor or table.scale is None


def _table(found: Rehearsal, revision: RevisionImpact, table: TableImpact, width: int) -> Iterator[str]:
    rows = f"{many(table.rows, 'row')}, {size(table.bytes)}"
    if table.scale != 1.0 and table.production_rows is not None:
        times = (
            f"estimates × {table.scale:.1f}" if table.scale else f"more than {MOST_SCALED:.0f} × is a guess"
        )
        rows = f"{rows}; in production {table.production_rows:,} rows: {times}"
    yield from _wrapped(f"{table.table}  {rows}", "  ", width)
    yield from _named("certain", "; ".join(_certain(table, revision.path)), width)
    yield from _named("estimate", "; ".join(_estimates(table, found.measurable_ms)), width)
    if table.spent_by is not None and table.wait_ms >= found.measurable_ms:
        yield from _named("time", _spent(table.spent_by, revision.path), width)
    if STRONGEST in table.modes:
        age = table.oldest_s
        now = "; at this moment there is none" if age is None else f": it has lasted {age:.0f} s"
        known = now if found.production is not None else "; no production URL was given"
        said = f"plus the time until production's oldest transaction on {table.table} ends{known}"
        yield from _named("unknown", said, width)


def _certain(table: TableImpact, file: str) -> Iterator[str]:
    where = _place(table.taken_by, file) if table.taken_by else ""
    yield f"{spelt(table.modes[0])}, taken at {where}" if where else spelt(table.modes[0])
    yield "rewritten" if table.rewritten else "not rewritten"
    if STRONGEST not in table.modes:
        return
    if table.gives_up is None:
        yield "whether the request gives up is not known"
        return
    limit = duration(table.lock_timeout_ms) if table.lock_timeout_ms else "none"
    if table.encounter is None:
        known = f"read from lock_timeout: {limit}"
    elif table.encounter.gave_up:
        known = f"tried: it gave up after {duration(table.encounter.waited_ms)}"
    else:
        more = f", lock_timeout {limit}" if table.gives_up else ""
        known = f"tried: it still waited after {duration(table.encounter.waited_ms)}{more}"
    yield f"the request {'gives' if table.gives_up else 'never gives'} up ({known})"


def _estimates(table: TableImpact, floor: float) -> Iterator[str]:
    """Write how long the lock was held, and how long other sessions would have waited."""
    yield f"held {_figure(table, table.held_ms)}"
    waits = (("a writer", table.writer_ms), ("a reader", table.reader_ms), ("rows", table.rows_ms))
    for who, waited in waits:
        if waited is None:
            yield f"{who} not measured"
        elif waited < floor:
            yield f"{who}: too small to measure"
        else:
            yield f"{'rows locked' if who == 'rows' else f'{who} waits'} {_figure(table, waited)}"


def _figure(table: TableImpact, ms: float) -> str:
    """Write an estimate: scaled to production's rows, with the clone's figure beside it."""
    here = duration(ms)
    if table.scale is None:
        return f"{here} here, unknown in production"
    return here if table.scale == 1.0 else f"{duration(ms * table.scale)} ({here} here)"


def _spent(statement: "Statement", file: str) -> str:
    """Name the statement that took the time."""
    where = _place(statement, file)
    return f"{duration(statement.duration_ms)}{f' in {where}' if where else ''}: {statement.first_words}"


def _place(statement: "Statement", file: str) -> str:
    """Write the line in this file, the revision's own; else the place in another one."""
    own = statement.source.removeprefix(file)
    return statement.source if own == statement.source else own.replace(":", "line ")


def _notes(found: Rehearsal) -> Iterator[str]:
    """List the limits of the whole rehearsal, and count the tables of the write test."""
    if found.locks_file:
        yield "SQLite locks the whole file: writers wait until a revision ends."
    if found.not_tried is not None:
        yield f"No blocking reader was used ({found.not_tried}): bounds are read from lock_timeout."
    for table in dict.fromkeys(table.table for table in found.tables if table.table in found.not_probed):
        why = found.not_probed[table]
        yield f"Not probed: {table} ({why}); it is judged by how long its lock was held."
    for name in found.autovacuum:
        yield f"An autovacuum of {name} ran meanwhile."
    if found.limit_ms is not None and found.measurable_ms > found.limit_ms * 2:
        floor = duration(found.measurable_ms)
        yield f"Waits under {floor} are too small to measure here: use a quieter machine for this limit."
    tried, empty = found.writes.tried, found.writes.empty
    if tried:
        yield f"Writes: one row of {many(tried, 'table')} was updated, inserted and deleted, and rolled back."
    if empty:
        more = f" and {len(empty) - MOST_NAMED} more" if len(empty) > MOST_NAMED else ""
        yield f"Not written to, because they are empty: {', '.join(empty[:MOST_NAMED])}{more}."


def _named(name: str, said: str, width: int) -> Iterator[str]:
    yield from _filled(said, f"    {name:<{NAME_WIDTH}}", " " * (4 + NAME_WIDTH), width)


def _wrapped(said: str, indent: str, width: int) -> Iterator[str]:
    yield from _filled(said, indent, f"{indent}  ", width)


def _filled(said: str, first: str, later: str, width: int) -> Iterator[str]:
    """Break a sentence into lines of this width, between words; `first` and `later` are their indents."""
    yield from textwrap.wrap(
        said,
        width,
        initial_indent=first,
        subsequent_indent=later,
        break_on_hyphens=False,
        break_long_words=False,
    )


# Result of `compat`.


def compat_as_lines(found: "Compat", width: int = LONGEST) -> Iterator[str]:
    """Write the answer, then broken, changed and unprepared statements with their reasons."""
    for line in _compat_answer(found):
        yield from _wrapped(line, "", width)
    yield from _compat_details(found, width)


def compat_as_markdown(found: "Compat") -> str:
    """Write a comment for a pull request."""
    mark = MARKS[LimitVerdict.OVER] if found.exit_code else "✅"
    return _comment(mark, "compat", _compat_answer(found), _compat_details(found, LONGEST))


def _compat_answer(found: "Compat") -> Iterator[str]:
    """Summarise the result in one sentence; then name the revision that failed."""
    yield (
        f"{many(found.statements, 'statement')}: {len(found.broken)} would break, {len(found.changed)} would return other "
        f"columns, {len(found.unprepared)} cannot be prepared."
    )
    if found.failure is not None:
        said, at = _failed("Failed", found.failure), found.after or "base"
        yield f"{said}; later revisions were not tried. The clone is at {at} now, production was not touched."


def _compat_details(found: "Compat", width: int) -> Iterator[str]:
    for kind, results in (("breaks", found.broken), ("changes", found.changed)):
        for result in results:
            yield f"{kind}: {_statement(result, width - len(kind) - 2)}"
            yield from _wrapped(f"{result.revision} ({result.path}): {result.what}", "  ", width)
    groups: dict[str, list[StatementResult]] = {}
    for result in found.unprepared:
        groups.setdefault(result.what, []).append(result)
    for reason, group in sorted(groups.items(), key=lambda each: -len(each[1])):
        yield from _wrapped(f"not prepared, {reason}: {len(group)}", "", width)
        for result in group[:SHOWN]:
            yield f"  {_statement(result, width - 2)}"
        if len(group) > SHOWN:
            yield f"  and {len(group) - SHOWN} more; --json shows them"


def _statement(result: "StatementResult", longest: int) -> str:
    line = " ".join(result.statement.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def compat_as_data(found: "Compat") -> dict[str, Any]:
    """Return the result as data; `compat.schema.json` describes it."""
    return {**VERSION, "ok": found.exit_code == 0, **as_plain(found)}
