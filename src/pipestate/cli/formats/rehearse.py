"""Rehearsal on the terminal, as JSON and as Markdown: certain results, estimates, and unknowns."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipestate.cli.formats import rehearse_words as words
from pipestate.cli.formats.json import as_plain
from pipestate.core.text import duration, markdown, markdown_code
from pipestate.rehearse.impact import (
    STRONGEST,
    LimitVerdict,
    Rehearsal,
    Return,
    RevisionImpact,
    TableImpact,
    spelt,
)
from pipestate.verify.report import Outcome, PhaseReport, Verdict

NAME_WIDTH = 10


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


SCHEMA = Path(__file__).with_name("rehearse.schema.json")
SCHEMA_VERSION = 1


def rehearsal_as_data(found: Rehearsal) -> dict[str, Any]:
    """Return the whole result as data; `rehearse.schema.json` describes it."""
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
        "failure": as_plain(found.failure, {}),
        "revisions": [_revision_rehearse_data(found, revision) for revision in found.revisions],
        "phases": [
            {"phase": asked.phase, "before": _gate(asked.before), "after": _gate(asked.after)}
            for asked in found.phases
        ],
        "findings": as_plain(found.findings, {}),
        "writes": as_plain(found.writes, {}),
        "there_and_back": as_plain(found.returned, {Return: "ok back again failure"}),
        "not_probed": found.not_probed,
        "not_tried": found.not_tried,
        "autovacuum": list(found.autovacuum),
    }


def _gate(found: PhaseReport) -> dict[str, Any]:
    return {
        "gate": str(found.gate),
        "checks": [
            as_plain(verdict, {Verdict: "id=check_id outcome level message"})
            for verdict in found.checks
            if verdict.outcome is not Outcome.SKIPPED
        ],
    }


def _revision_rehearse_data(found: Rehearsal, revision: RevisionImpact) -> dict[str, Any]:
    return {
        "revision": revision.revision,
        "path": str(Path(revision.path)),
        "duration_ms": round(revision.duration_ms, 1),
        "gates": as_plain(revision.gates, {}),
        "tables": [_table_rehearse_data(found, table) for table in revision.tables],
    }


def _table_rehearse_data(found: Rehearsal, table: TableImpact) -> dict[str, Any]:
    return {
        "table": table.table,
        "rows": table.rows,
        "production_rows": table.production_rows,
        "scale": _rounded(table.scale, 3),
        "bytes": table.bytes,
        "modes": [spelt(mode) for mode in table.modes],
        "rewritten": table.rewritten,
        "taken_at": table.taken_by.source if table.taken_by else None,
        "spent_at": table.spent_by.source if table.spent_by else None,
        "bounded": table.bounded,
        "bounded_by": _how_known(table),
        "waited_for_reader_ms": _rounded(table.encounter.waited_ms if table.encounter else None),
        "lock_timeout_ms": _rounded(table.lock_timeout_ms),
        "held_ms": _rounded(table.held_ms),
        "queued_ms": _rounded(table.queued_ms),
        "writer_ms": _rounded(table.writer_ms),
        "reader_ms": _rounded(table.reader_ms),
        "rows_ms": _rounded(table.rows_ms),
        "stall_ms": _rounded(table.stall_ms),
        "production_stall_ms": _rounded(table.production_stall_ms),
        "noise": table.stall_ms < found.noise_floor_ms,
        "oldest_transaction_s": found.oldest.get(table.table),
    }


def _how_known(table: TableImpact) -> str | None:
    if table.bounded is None or STRONGEST not in table.modes:
        return None
    return "tried" if table.encounter is not None else "lock_timeout"


def _rounded(value: float | None, digits: int = 1) -> float | None:
    return None if value is None else round(value, digits)


MARKS = {
    LimitVerdict.WITHIN: "✅",
    LimitVerdict.TOO_CLOSE: "⚠️",
    LimitVerdict.UNKNOWN: "❓",
    LimitVerdict.OVER: "❌",
}
COLUMNS = ("revision", "table", "lock", "a writer waits", "a reader waits", "rows are locked", "its own wait")


def rehearsal_as_markdown(found: Rehearsal) -> str:
    """Write a comment for a pull request; text from the database or the revisions is quoted literally."""
    return "\n".join(
        [
            f"### {_mark(found)} pipestate rehearse: {markdown(words.closing(found))}",
            "",
            f"`{markdown_code(found.clone)}`, {markdown(words.way(found))}",
            *_table_rehearse_markdown(found),
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


def _table_rehearse_markdown(found: Rehearsal) -> Iterator[str]:
    if not found.revisions:
        return
    yield from ("", f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS))
    for revision in found.revisions:
        shown = [table for table in revision.tables if is_worth_a_line(table, found.noise_floor_ms)]
        for table in shown:
            yield _row(found, revision, table)
        if not shown:
            nobody = "" if found.locks_file else "no session waits for an existing table"
            yield f"| {_revision_rehearse_markdown(revision)} | {nobody} |" + " |" * (len(COLUMNS) - 2)


def _revision_rehearse_markdown(revision: RevisionImpact) -> str:
    path = markdown_code(words.near(revision.path))
    return f"{markdown(revision.revision)}<br>`{path}`<br>{duration(revision.duration_ms)}"


def _row(found: Rehearsal, revision: RevisionImpact, table: TableImpact) -> str:
    waits = [_wait(found, table, waited) for waited in (table.writer_ms, table.reader_ms, table.rows_ms)]
    rewritten = ", rewritten" if table.rewritten else ""
    cells = [
        _revision_rehearse_markdown(revision),
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
