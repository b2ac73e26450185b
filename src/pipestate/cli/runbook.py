"""The commands `runbook lint` and `runbook show`: they need no database."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from pipestate.cli.options import AsJson, complete_runbook, project_options
from pipestate.cli.output import console, print_answer, say
from pipestate.core.errors import ConfigError, PipestateError
from pipestate.core.text import many
from pipestate.project.find import Named, Project, find_project

if TYPE_CHECKING:
    from rich.console import Console

    from pipestate.runbook.model import Backfill, Check, Evidence, Phase, Runbook, SignOff, View


class Dialect(StrEnum):
    POSTGRESQL = "postgresql"
    SQLITE = "sqlite"


app = typer.Typer(help="Check and show runbooks, without a database.", no_args_is_help=True)


@app.command()
@project_options
def lint(
    named: Named,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Files; else all of the project.")
    ] = None,
    json_: AsJson = False,
) -> None:
    """Check the runbooks: what is wrong, in which line, and how to fix it.

    Exit code 0: nothing was found; 2: something was.

    Example: pipestate runbook lint runbooks/orders.md
    """
    from pipestate.project.phases import lint, require_runbooks
    from pipestate.runbook.files import all_runbook_files, runbook_files, without_page

    project = project_if_any(named) if paths else find_project(named)
    files = [Path(path) for path in paths or []]
    if project is not None and not files:
        files = [*runbook_files(project.runbooks), *without_page(project.runbooks)]
        if not files:
            require_runbooks(project)
    pages = all_runbook_files(files)
    findings = lint(pages, project)
    data = {"schema_version": 1, "ok": not findings, "runbooks": [str(page) for page in pages]}
    print_answer(data | {"findings": findings}, map(str, findings), json_=json_)
    say(f"{many(len(pages), 'runbook')}, {many(len(findings), 'finding')}", err=True)
    raise typer.Exit(2 if findings else 0)


@app.command()
@project_options
def show(
    project: Project,
    name: Annotated[
        str,
        typer.Argument(
            metavar="RUNBOOK", help="A name, or the path of a .md file.", autocompletion=complete_runbook
        ),
    ],
    phase: Annotated[
        str | None,
        typer.Option(
            "--phase",
            metavar="PHASE",
            help="Show only this phase, as SQL to paste: each criterion and its query.",
        ),
    ] = None,
    dialect: Annotated[
        Dialect, typer.Option("--dialect", metavar="ENGINE", help="With --phase: for which engine.")
    ] = Dialect.POSTGRESQL,
) -> None:
    """Show a runbook as people read it; with --phase, the SQL that is run for it.

    Example: pipestate runbook show orders --phase readiness
    """
    from pipestate.runbook.files import find_runbooks

    (runbook,) = find_runbooks([name], project.runbooks)
    if phase is None:
        print_runbook(runbook, console())
    else:
        print(as_sql(runbook, phase, dialect))


def project_if_any(named: Named) -> Project | None:
    """Find the project of the files; return None if none is named and none is found."""
    try:
        return find_project(named)
    except PipestateError:
        if named != Named():
            raise
        return None


def print_runbook(runbook: "Runbook", console: "Console") -> None:
    """Print the runbook: rendered on a terminal, its source in a pipe."""
    if not console.is_terminal:
        console.print(runbook.text)
        return
    from rich.markdown import Markdown, MarkdownElement, TableElement
    from rich.table import Table

    class FoldedTable(TableElement):
        """A table that breaks long words: people must be able to copy a whole name."""

        def __rich_console__(self, console: Any, options: Any) -> Any:
            for part in super().__rich_console__(console, options):
                for column in part.columns if isinstance(part, Table) else ():
                    column.overflow = "fold"
                yield part

    class Page(Markdown):
        elements: ClassVar[dict[str, type[MarkdownElement]]] = {
            **Markdown.elements,
            "table_open": FoldedTable,
        }

    console.print(Page(runbook.text.split("---\n", 2)[-1]))


def as_sql(runbook: "Runbook", name: str, dialect: str) -> str:
    """Write the sign-offs, checks and views of a phase as SQL, as they are run; backfills as comments: only batches run."""
    phase = runbook.phase(name.removeprefix(f"{runbook.name}/"))
    if phase is None:
        known = ", ".join(each.name for each in runbook.phases)
        raise ConfigError(f"{runbook.path} has no phase {name}; it has {known}")
    return "\n".join(_lines(runbook, phase, dialect)).rstrip()


def _lines(runbook: "Runbook", phase: "Phase", dialect: str) -> Iterator[str]:
    opens = f", the gate of {', '.join(phase.opens)}" if phase.opens else ""
    yield f"-- {runbook.name}/{phase.name}{opens}, on {dialect}"
    here = {check.id: check for check in phase.checks_for(dialect)}
    for id in dict.fromkeys(check.id for check in phase.checks):
        yield ""
        if id in here:
            yield from _check(runbook, here[id], dialect)
        else:
            yield f"-- check: {id} is not evaluated on {dialect}: the runbook says that it cannot hold this state"
    for view in phase.views_for(dialect):
        yield ""
        yield from _block(f"-- view: {view.id} ({view.block})", view, dialect)
    for backfill in phase.backfills_for(dialect):
        yield ""
        yield f"-- backfill: {backfill.id} ({backfill.block}), run by pipestate backfill {runbook.name}/{backfill.id}"
        yield from (f"--   {line}" for line in backfill.sql.splitlines())


def _check(runbook: "Runbook", check: "Check | SignOff", dialect: str) -> Iterator[str]:
    from pipestate.core.text import written
    from pipestate.runbook.model import SignOff

    if isinstance(check, SignOff):
        whose = f"sign-offs of {check.people} people" if check.people > 1 else "a sign-off"
        yield f"-- sign-off: {check.id} ({runbook.path}:{check.line})"
        yield f"-- require: {whose}, not older than {written(check.valid_for)}: {check.text}"
        return
    source = f"{runbook.path}:{check.line}"
    again = f"again {check.again}, at {source}; its block: {check.block}" if check.again else check.block
    yield f"-- check: {check.id} ({again})"
    for key, value in (("level", check.level), ("from", check.from_), ("until", check.until)):
        if value not in (None, "block"):
            yield f"-- {key}: {value}"
    yield from _block(f"-- require: {check.require.text}", check, dialect)
    evidence = check.evidence_for(dialect)
    if evidence is not None and not check.require.shows_own_rows:
        yield from _block(f"-- explains: {check.id} ({evidence.block})", evidence, dialect)


def _block(first: str, query: "Check | Evidence | View | Backfill", dialect: str) -> Iterator[str]:
    from pipestate.runbook.variants import as_read_by

    yield first
    sql = as_read_by(dialect, query.sql)
    # A comment at the end of the SQL would swallow the semicolon.
    yield f"{sql}\n;" if "--" in sql.rpartition("\n")[2] else f"{sql};"
