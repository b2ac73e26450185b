"""Rehearsal and `compat` on the terminal and as Markdown: certain results, estimates, and unknowns."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pipestate.cli.formats import rehearse_words as words
from pipestate.cli.formats.json import VERSION, as_plain
from pipestate.core.text import duration, many, markdown, markdown_code
from pipestate.rehearse.impact import STRONGEST, LimitVerdict, Rehearsal, RevisionImpact, TableImpact, spelt

if TYPE_CHECKING:
    from pipestate.rehearse.compat import Compat, StatementResult

NAME_WIDTH = 10
MARKS = {
    LimitVerdict.WITHIN: "✅",
    LimitVerdict.TOO_CLOSE: "⚠️",
    LimitVerdict.UNKNOWN: "❓",
    LimitVerdict.OVER: "❌",
}
COLUMNS = ("revision", "table", "lock", "a writer waits", "a reader waits", "rows are locked", "its own wait")
LONGEST = 100
SHOWN = 10


def rehearsal_as_lines(found: Rehearsal, width: int = 80) -> Iterator[str]:
    """Write the result for a terminal of this width: the answer, the findings, then the details."""
    for line in _answer(found):
        yield from _wrapped(line, "", width)
    yield ""
    yield from _wrapped(words.head(found), "", width)
    if found.noise_ms:
        yield from _wrapped(words.noise(found), "", width)
    for revision in found.revisions:
        yield ""
        yield from _revision(found, revision, width)
    below = list(_below(found))
    if below:
        yield ""
    for line in below:
        yield from _wrapped(line, "", width)


def _answer(found: Rehearsal) -> Iterator[str]:
    yield words.closing(found)
    for finding in found.findings:
        yield words.finding(finding)
    for broken in found.writes.broken:
        yield f"broken: {words.write(broken)}"
    if found.returned is not None:
        yield from words.way_back(found.returned)
    if found.findings or found.writes.broken:
        yield "Next: change the lines that are named here, then rehearse again"


def _below(found: Rehearsal) -> Iterator[str]:
    yield from words.notes(found)
    for outcome in found.phases:
        yield f"Gate {words.phase(outcome)}"
    yield from words.writes(found)


def _revision(found: Rehearsal, revision: RevisionImpact, width: int) -> Iterator[str]:
    head = f"{revision.revision}  {words.near(revision.path)}  {duration(revision.duration_ms)}"
    yield from _wrapped(head, "", width)
    for gate in revision.gates:
        yield from _named("gate", words.gate(gate), width)
    shown = [table for table in revision.tables if is_worth_a_line(table, found.noise_floor_ms)]
    for table in shown:
        yield from _table(found, table, width)
    if not shown:
        if not found.locks_file:
            yield "  no session waits for an existing table"
        if revision.slowest is not None:
            yield from _named("time", words.spent(revision.slowest), width)


def is_worth_a_line(table: TableImpact, floor: float) -> bool:
    """Tell whether a table is shown: skip those with short, weak write locks."""
    weak = all(mode in ("RowShareLock", "RowExclusiveLock") for mode in table.modes)
    return not weak or table.stall_ms >= floor or table.scale is None


def _table(found: Rehearsal, table: TableImpact, width: int) -> Iterator[str]:
    yield from _wrapped(f"{table.table}  {words.rows(table)}", "  ", width)
    yield from _named("certain", "; ".join(_certain(table)), width)
    yield from _named("estimate", "; ".join(words.estimates(table, found.noise_floor_ms)), width)
    if table.spent_by is not None and table.stall_ms >= found.noise_floor_ms:
        yield from _named("time", words.spent(table.spent_by), width)
    if STRONGEST in table.modes:
        yield from _named("unknown", words.unknown(found, table), width)


def _certain(table: TableImpact) -> Iterator[str]:
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


def rehearsal_as_markdown(found: Rehearsal) -> str:
    """Write a comment for a pull request; text from the database or the revisions is quoted literally."""
    return "\n".join(
        [
            f"### {_mark(found)} pipestate rehearse: {markdown(words.closing(found))}",
            "",
            f"`{markdown_code(found.clone)}`, {markdown(words.way(found))}",
            *_rows(found),
            *_findings(found),
            *_phases(found),
            *_notes(found),
        ]
    )


def _mark(found: Rehearsal) -> str:
    if found.failure is not None:
        return MARKS[LimitVerdict.OVER]
    judged = found.exit_code == 0 or (found.findings and not found.writes.broken)
    return MARKS[words.worst(found)] if judged else MARKS[LimitVerdict.OVER]


def _rows(found: Rehearsal) -> Iterator[str]:
    if not found.revisions:
        return
    yield from ("", f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS))
    for revision in found.revisions:
        shown = [table for table in revision.tables if is_worth_a_line(table, found.noise_floor_ms)]
        for table in shown:
            yield _row(found, revision, table)
        if not shown:
            nobody = "" if found.locks_file else "no session waits for an existing table"
            yield f"| {_revision_cell(revision)} | {nobody} |" + " |" * (len(COLUMNS) - 2)


def _revision_cell(revision: RevisionImpact) -> str:
    path = markdown_code(words.near(revision.path))
    return f"{markdown(revision.revision)}<br>`{path}`<br>{duration(revision.duration_ms)}"


def _row(found: Rehearsal, revision: RevisionImpact, table: TableImpact) -> str:
    waits = [_wait(found, table, waited) for waited in (table.writer_ms, table.reader_ms, table.rows_ms)]
    rewritten = ", rewritten" if table.rewritten else ""
    cells = [
        _revision_cell(revision),
        f"{markdown(table.table)}<br>{markdown(words.rows(table))}",
        f"{spelt(table.modes[0])}{rewritten}",
        *waits,
        _bound(table),
    ]
    return f"| {' | '.join(cells)} |"


def _wait(found: Rehearsal, table: TableImpact, waited: float | None) -> str:
    if waited is None:
        return "not measured"
    return "noise" if waited < found.noise_floor_ms else words.figure(table, waited)


def _bound(table: TableImpact) -> str:
    if STRONGEST not in table.modes:
        return "–"
    said = markdown(words.bound(table).removeprefix("waiting for it is "))
    return f"**{said}**" if table.bounded is False else said


def _findings(found: Rehearsal) -> Iterator[str]:
    if found.findings:
        yield ""
    for each in found.findings:
        where = f"`{markdown_code(words.near(each.source))}`, " if each.source else ""
        yield (
            f"- {MARKS[each.verdict]} **{each.verdict}**: {markdown(each.revision)}, {where}{markdown(each.table)}: "
            f"it {markdown(each.what)}. Instead: {markdown(each.instead)}."
        )
    if found.writes.broken:
        yield ""
    yield from (f"- ❌ **broken**: {markdown(words.write(each))}." for each in found.writes.broken)


def _phases(found: Rehearsal) -> Iterator[str]:
    if not found.phases:
        return
    yield from ("", "| gate on the clone | before | after |", "|---|---|---|")
    for asked in found.phases:
        cells = (asked.phase, words.stand(asked.before), words.stand(asked.after))
        yield f"| {' | '.join(markdown(cell) for cell in cells)} |"


def _notes(found: Rehearsal) -> Iterator[str]:
    said = [*words.notes(found)]
    said += [f"Unknown: {words.unknown(found, table)}." for table in _exclusive(found)]
    if found.noise_ms:
        said.append(words.noise(found))
    if found.returned is not None:
        said += words.way_back(found.returned)
    if said:
        yield ""
    yield from (f"- {markdown(line)}" for line in said)


def _exclusive(found: Rehearsal) -> list[TableImpact]:
    """List the tables with an exclusive lock, each once."""
    return list({table.table: table for table in found.tables if STRONGEST in table.modes}.values())


# Result of `compat`.


def compat_as_lines(found: "Compat", width: int = LONGEST) -> Iterator[str]:
    """Write the answer, then broken, changed and unprepared statements with their reasons."""
    for line in (compat_closing(found), *_compat_failure(found)):
        yield from words.filled(line, "", "  ", width)
    for kind, results in (("breaks", found.broken), ("changes", found.changed)):
        for result in results:
            yield f"{kind}: {_statement(result, width - len(kind) - 2)}"
            yield from words.filled(
                f"{result.revision} ({words.near(result.path or '')}): {result.what}", "  ", "    ", width
            )
    for reason, group in by_reason(found):
        yield from words.filled(f"not prepared, {reason}: {len(group)}", "", "  ", width)
        for result in group[:SHOWN]:
            yield f"  {_statement(result, width - 2)}"
        if len(group) > SHOWN:
            yield f"  and {len(group) - SHOWN} more; --json shows them"


def by_reason(found: "Compat") -> "list[tuple[str, list[StatementResult]]]":
    """Group the unprepared statements by reason, the most frequent first."""
    in_order = sorted(found.unprepared, key=lambda result: str(result.reason))
    groups = [(reason, list(group)) for reason, group in groupby(in_order, lambda result: str(result.reason))]
    return sorted(groups, key=lambda each: -len(each[1]))


def compat_closing(found: "Compat") -> str:
    """Summarise the result in one sentence."""
    return (
        f"{many(found.statements, 'statement')}: {len(found.broken)} would break, {len(found.changed)} would return other "
        f"columns, {len(found.unprepared)} cannot be prepared."
    )


def _compat_failure(found: "Compat") -> Iterator[str]:
    if found.failure is not None:
        where = f" ({words.near(found.failure.source)})" if found.failure.source else ""
        at = found.after or "base"
        yield (
            f"Failed{where}: {found.failure.message}; later revisions were not tried. The clone is at {at} now, production "
            "was not touched."
        )


def _statement(result: "StatementResult", longest: int = LONGEST) -> str:
    line = " ".join(result.statement.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def compat_as_data(found: "Compat") -> dict[str, Any]:
    """Return the result as data; `compat.schema.json` describes it."""
    reasons = {reason: len(group) for reason, group in by_reason(found)}
    return {**VERSION, "ok": found.exit_code == 0, **as_plain(found), "unprepared_by_reason": reasons}


def compat_as_markdown(found: "Compat") -> str:
    """Write a comment for a pull request; statements are quoted literally."""
    mark = "✅" if found.exit_code == 0 else "❌"
    lines = [f"### {mark} pipestate compat: {markdown(compat_closing(found))}"]
    result = [("breaks", each) for each in found.broken] + [("changes", each) for each in found.changed]
    if result:
        lines += ["", "| | statement | revision | what |", "|---|---|---|---|"]
    for kind, each in result:
        where = f"{markdown(str(each.revision))} `{markdown_code(words.near(each.path or ''))}`"
        lines.append(f"| {kind} | `{markdown_code(_statement(each))}` | {where} | {markdown(each.what)} |")
    notes = [f"not prepared, {reason}: {len(group)}" for reason, group in by_reason(found)]
    notes += _compat_failure(found)
    return "\n".join([*lines, *([""] if notes else []), *(f"- {markdown(note)}" for note in notes)])
