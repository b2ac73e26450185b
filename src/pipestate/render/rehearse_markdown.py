"""A rehearsal as Markdown, for a comment on a pull request: a table, what is wrong and where, the gates."""

from collections.abc import Iterator

from pipestate.plural import duration
from pipestate.rehearse.felt import STRONGEST, LimitVerdict, Rehearsal, RevisionFelt, TableFelt, spelt
from pipestate.render import rehearse_words as words
from pipestate.render.rehearse import is_worth_a_line
from pipestate.safe import markdown, markdown_code

MARKS = {
    LimitVerdict.WITHIN: "✅",
    LimitVerdict.TOO_CLOSE: "⚠️",
    LimitVerdict.UNKNOWN: "❓",
    LimitVerdict.OVER: "❌",
}
COLUMNS = ("revision", "table", "lock", "a writer waits", "a reader waits", "rows are locked", "its own wait")


def rehearsal_as_markdown(found: Rehearsal) -> str:
    """Write the result; whatever comes from the database or the revisions is shown as it is."""
    return "\n".join(
        [
            f"### {_mark(found)} pipestate rehearse: {markdown(words.closing(found))}",
            "",
            f"`{markdown_code(found.clone)}`, {markdown(words.way(found))}",
            *_table(found),
            *_findings(found),
            *_phases(found),
            *_notes(found),
        ]
    )


def _mark(found: Rehearsal) -> str:
    if found.failure is not None:
        return MARKS[LimitVerdict.OVER]
    return MARKS[words.worst(found)] if found.exit_code == 0 or found.findings else MARKS[LimitVerdict.OVER]


def _table(found: Rehearsal) -> Iterator[str]:
    if not found.revisions:
        return
    yield from ("", f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS))
    for revision in found.revisions:
        shown = [table for table in revision.tables if is_worth_a_line(table, found.noise_floor_ms)]
        for table in shown:
            yield _row(found, revision, table)
        if not shown:
            nobody = "" if found.locks_file else "nobody waits for a table that was there before"
            yield f"| {_revision(revision)} | {nobody} |" + " |" * (len(COLUMNS) - 2)


def _revision(revision: RevisionFelt) -> str:
    path = markdown_code(words.near(revision.path))
    return f"{markdown(revision.revision)}<br>`{path}`<br>{duration(revision.duration_ms)}"


def _row(found: Rehearsal, revision: RevisionFelt, table: TableFelt) -> str:
    waits = [_wait(found, table, waited) for waited in (table.writer_ms, table.reader_ms, table.rows_ms)]
    rewritten = ", rewritten" if table.rewritten else ""
    cells = [
        _revision(revision),
        f"{markdown(table.table)}<br>{markdown(words.rows(table))}",
        f"{spelt(table.modes[0])}{rewritten}",
        *waits,
        _bound(table),
    ]
    return f"| {' | '.join(cells)} |"


def _wait(found: Rehearsal, table: TableFelt, waited: float | None) -> str:
    if waited is None:
        return "not measured"
    return "noise" if waited < found.noise_floor_ms else words.figure(table, waited)


def _bound(table: TableFelt) -> str:
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


def _exclusive(found: Rehearsal) -> list[TableFelt]:
    """List the tables that are locked against everybody, each once."""
    return list({table.table: table for table in found.tables if STRONGEST in table.modes}.values())
