"""A runbook on the terminal, and one of its phases as SQL to paste."""

from collections.abc import Iterator
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.table import Table

from pipestate.core.errors import ConfigError
from pipestate.runbook.model import Backfill, Check, Evidence, Phase, Runbook, SignOff, View
from pipestate.runbook.variants import as_read_by
from pipestate.verify.select import written


class FoldedTable(TableElement):
    """A table that breaks long words: people must be able to copy a whole name."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        for part in super().__rich_console__(console, options):
            if isinstance(part, Table):
                for column in part.columns:
                    column.overflow = "fold"
            yield part  # type: ignore[misc]  # whole parts instead of segments


class Page(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "table_open": FoldedTable}


def print_runbook(runbook: Runbook, console: Console) -> None:
    """Print the runbook: rendered on a terminal, its source in a pipe."""
    console.print(Page(runbook.text.split("---\n", 2)[-1]) if console.is_terminal else runbook.text)


def as_sql(runbook: Runbook, name: str, dialect: str) -> str:
    """Write the sign-offs, checks, views and backfills of a phase as SQL, as they are run."""
    phase = runbook.phase(name.removeprefix(f"{runbook.name}/"))
    if phase is None:
        known = ", ".join(each.name for each in runbook.phases)
        raise ConfigError(f"{runbook.path} has no phase {name}; it has {known}")
    return "\n".join(_lines(runbook, phase, dialect)).rstrip()


def _lines(runbook: Runbook, phase: Phase, dialect: str) -> Iterator[str]:
    opens = f", the gate of {', '.join(phase.opens)}" if phase.opens else ""
    yield f"-- {runbook.name}/{phase.name}{opens}, on {dialect}"
    here = {check.id: check for check in phase.checks_for(dialect)}
    for id in dict.fromkeys(check.id for check in phase.checks):
        yield ""
        if id in here:
            yield from _check(runbook, here[id], dialect)
        else:
            yield f"-- check: {id} is not asked on {dialect}: the page says that it cannot hold this state"
    for view in phase.views_for(dialect):
        yield ""
        yield from _block(f"-- view: {view.id} ({view.block})", view, dialect)
    for backfill in phase.backfills_for(dialect):
        yield ""
        yield f"-- backfill: {backfill.id} ({backfill.block}), run by pipestate backfill {runbook.name}/{backfill.id}"
        yield f"-- table: {backfill.table}"
        yield from _block(f"-- key: {backfill.key}", backfill, dialect)


def _check(runbook: Runbook, check: Check | SignOff, dialect: str) -> Iterator[str]:
    if isinstance(check, SignOff):
        whose = f"the word of {check.people} people" if check.people > 1 else "somebody's word"
        yield f"-- sign-off: {check.id} ({runbook.path}:{check.line})"
        yield f"-- require: {whose}, not older than {written(check.valid_for)}: {check.text}"
        return
    source = f"{runbook.path}:{check.line}"
    again = f"again {check.again}, at {source}; its block: {check.block}" if check.again else check.block
    yield f"-- check: {check.id} ({again})"
    yield from _scope(check)
    yield from _block(f"-- require: {check.require.text}", check, dialect)
    evidence = check.evidence_for(dialect)
    if evidence is not None and not check.require.shows_own_rows:
        yield from _block(f"-- explains: {check.id} ({evidence.block})", evidence, dialect)


def _scope(check: Check) -> Iterator[str]:
    for key, value in (("level", check.level), ("from", check.from_), ("until", check.until)):
        if value not in (None, "block"):
            yield f"-- {key}: {value}"


def _block(first: str, query: Check | Evidence | View | Backfill, dialect: str) -> Iterator[str]:
    yield first
    sql = as_read_by(dialect, query.sql)
    # A comment at the end of the SQL would swallow the semicolon.
    yield f"{sql}\n;" if "--" in sql.rpartition("\n")[2] else f"{sql};"
