"""Rehearsal and `compat` on the terminal and as Markdown: certain results, estimates, and unknowns."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pipestate.cli.formats import rehearse_words as words
from pipestate.cli.formats.json import VERSION, as_plain
from pipestate.core.text import duration, many, markdown, plain_lines
from pipestate.rehearse.impact import STRONGEST, LimitVerdict, Rehearsal, RevisionImpact, TableImpact, spelt
from pipestate.report.words import places

if TYPE_CHECKING:
    from pipestate.rehearse.compat import Compat, StatementResult

NAME_WIDTH = 10
MARKS = {LimitVerdict.TOO_CLOSE: "⚠️", LimitVerdict.UNKNOWN: "❓", LimitVerdict.OVER: "❌"}
LONGEST = 100
SHOWN = 10


def rehearsal_as_lines(found: Rehearsal, width: int = 80) -> Iterator[str]:
    """Write the result for a terminal of this width: the answer, the findings, then the details."""
    for line in _answer(found):
        yield from _wrapped(line, "", width)
    yield ""
    yield from _details(found, width)


def rehearsal_as_markdown(found: Rehearsal) -> str:
    """Write a comment for a pull request."""
    judged = found.exit_code == 0 or (found.findings and not found.writes.broken and not found.failure)
    verdict = words.worst(found) if judged else LimitVerdict.OVER
    return as_comment(MARKS.get(verdict, "✅"), "rehearse", _answer(found), _details(found, LONGEST))


def as_comment(mark: str, command: str, answer: Iterator[str], details: Iterator[str]) -> str:
    """Write the answer as a heading and a list, and the details as on a terminal; text of the database is literal."""
    first, *others = (markdown(line) for line in answer)
    code = plain_lines("\n".join(details)).replace("`", "ˋ")
    listed = ["", *(f"- {line}" for line in others)] if others else []
    shown = ["", "```text", code, "```"] if code else []
    return "\n".join([f"### {mark} pipestate {command}: {first}", *listed, *shown])


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


def _details(found: Rehearsal, width: int) -> Iterator[str]:
    yield from _wrapped(f"{places(found.clone)}  {words.way(found)}", "", width)
    if found.noise_ms:
        yield from _wrapped(words.noise(found), "", width)
    for revision in found.revisions:
        yield ""
        yield from _revision(found, revision, width)
    below = [*words.notes(found), *words.phases(found), *words.writes(found)]
    if below:
        yield ""
    for line in below:
        yield from _wrapped(line, "", width)


def _revision(found: Rehearsal, revision: RevisionImpact, width: int) -> Iterator[str]:
    head = f"{revision.revision}  {words.near(revision.path)}  {duration(revision.duration_ms)}"
    yield from _wrapped(head, "", width)
    for gate in revision.gates:
        yield from _named("gate", words.gate(gate), width)
    shown = [table for table in revision.tables if is_worth_a_line(table, found.noise_floor_ms)]
    for table in shown:
        yield from _table(found, revision, table, width)
    if not shown:
        if not found.locks_file:
            yield "  no session waits for an existing table"
        if revision.slowest is not None:
            yield from _named("time", words.spent(revision.slowest, revision.path), width)


def is_worth_a_line(table: TableImpact, floor: float) -> bool:
    """Tell whether a table is shown: skip those with short, weak write locks."""
    weak = all(mode in ("RowShareLock", "RowExclusiveLock") for mode in table.modes)
    return not weak or table.stall_ms >= floor or table.scale is None


def _table(found: Rehearsal, revision: RevisionImpact, table: TableImpact, width: int) -> Iterator[str]:
    yield from _wrapped(f"{table.table}  {words.rows(table)}", "  ", width)
    yield from _named("certain", "; ".join(_certain(table, revision.path)), width)
    yield from _named("estimate", "; ".join(words.estimates(table, found.noise_floor_ms)), width)
    if table.spent_by is not None and table.stall_ms >= found.noise_floor_ms:
        yield from _named("time", words.spent(table.spent_by, revision.path), width)
    if STRONGEST in table.modes:
        yield from _named("unknown", words.unknown(found, table), width)


def _certain(table: TableImpact, file: str) -> Iterator[str]:
    where = words.place(table.taken_by, file) if table.taken_by else ""
    yield f"{spelt(table.modes[0])}, taken at {where}" if where else spelt(table.modes[0])
    yield "rewritten" if table.rewritten else "not rewritten"
    if bound := words.bound(table):
        yield bound


def _named(name: str, said: str, width: int) -> Iterator[str]:
    indent = " " * (4 + NAME_WIDTH)
    yield from words.filled(said, f"    {name:<{NAME_WIDTH}}", indent, width)


def _wrapped(said: str, indent: str, width: int) -> Iterator[str]:
    yield from words.filled(said, indent, f"{indent}  ", width)


# Result of `compat`.


def compat_as_lines(found: "Compat", width: int = LONGEST) -> Iterator[str]:
    """Write the answer, then broken, changed and unprepared statements with their reasons."""
    for line in _compat_answer(found):
        yield from _wrapped(line, "", width)
    yield from _compat_details(found, width)


def compat_as_markdown(found: "Compat") -> str:
    """Write a comment for a pull request."""
    mark = MARKS[LimitVerdict.OVER] if found.exit_code else "✅"
    return as_comment(mark, "compat", _compat_answer(found), _compat_details(found, LONGEST))


def _compat_details(found: "Compat", width: int) -> Iterator[str]:
    for kind, results in (("breaks", found.broken), ("changes", found.changed)):
        for result in results:
            yield f"{kind}: {_statement(result, width - len(kind) - 2)}"
            what = f"{result.revision} ({words.near(result.path or '')}): {result.what}"
            yield from _wrapped(what, "  ", width)
    for reason, group in by_reason(found):
        yield from _wrapped(f"not prepared, {reason}: {len(group)}", "", width)
        for result in group[:SHOWN]:
            yield f"  {_statement(result, width - 2)}"
        if len(group) > SHOWN:
            yield f"  and {len(group) - SHOWN} more; --json shows them"


def by_reason(found: "Compat") -> "list[tuple[str, list[StatementResult]]]":
    """Group the unprepared statements by reason, the most frequent first."""
    in_order = sorted(found.unprepared, key=lambda result: str(result.reason))
    groups = [(reason, list(group)) for reason, group in groupby(in_order, lambda result: str(result.reason))]
    return sorted(groups, key=lambda each: -len(each[1]))


def _compat_answer(found: "Compat") -> Iterator[str]:
    """Summarise the result in one sentence; then name the revision that failed."""
    yield (
        f"{many(found.statements, 'statement')}: {len(found.broken)} would break, {len(found.changed)} would return other "
        f"columns, {len(found.unprepared)} cannot be prepared."
    )
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
