"""Options that commands share: the project and the database. A command requests them by its first argument.

    @project_options
    def history(to: Target, limit: ...) -> None:

The argument's type selects the options. Target is a project and its database; in TargetIfAny the database is
optional. Project is a project alone, and Named holds the options that name one.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.core.errors import PipestateError
from pipestate.database.urls import known_url, parse_url, place_of, resolve_url, shown
from pipestate.project.find import Calls, Named, Project, find_project

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection

    from pipestate.project.graph import Migrations, Position
    from pipestate.project.version_table import Locator
    from pipestate.runbook.model import Runbook

PROJECT_PANEL = "Which project"
DATABASE_PANEL = "Which database"


def _names(of: "Callable[[Runbook], Iterable[str]]") -> Callable[[str], list[str]]:
    """Complete names of the runbooks, without a database: `orders/ready` also as `ready`. Errors offer nothing."""

    def offer(incomplete: str) -> list[str]:
        from pipestate.runbook.files import runbook_files
        from pipestate.runbook.lint import load

        found: set[str] = set()
        with suppress(PipestateError):
            for path in runbook_files(find_project(Named()).runbooks):
                with suppress(PipestateError):  # skip a broken runbook, keep the others
                    parts = [name.split("/") for name in of(load(path))]
                    found.update("/".join(name[first:]) for name in parts for first in range(len(name)))
        return sorted(name for name in found if name.startswith(incomplete))

    return offer


complete_runbook = _names(lambda book: [book.name])
complete_phase = _names(lambda book: [f"{book.name}/{phase.name}" for phase in book.phases])
complete_signoff = _names(
    lambda book: [f"{book.name}/{phase.name}/{each.id}" for phase in book.phases for each in phase.signoffs]
)
complete_backfill = _names(
    lambda book: [f"{book.name}/{each.id}" for phase in book.phases for each in phase.backfills]
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
DEFAULT_TIMEOUT_S = 30.0
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Time limit of one check.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="List passed checks, revisions or gates as well.")
]
Phases = Annotated[
    list[str] | None,
    typer.Option(
        "--phase",
        metavar="PHASE",
        help="Run only this phase; repeatable. Write PHASE or RUNBOOK/PHASE.",
        autocompletion=complete_phase,
    ),
]
Runbooks = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUNBOOK",
        help="Names, or paths of .md files; else all default runbooks.",
        autocompletion=complete_runbook,
    ),
]


def text_option(*names: str, panel: str, metavar: str, help: str) -> Any:
    return Annotated[str | None, typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel)]


def flag(name: str, *, panel: str, help: str) -> Any:
    return Annotated[bool, typer.Option(name, help=help, rich_help_panel=panel)]


_INI = "The project's alembic.ini; else ALEMBIC_CONFIG, else the one in this directory."
_SECTION = "Section of that file, if not [alembic]."
_SCRIPTS = "Directory of env.py, for a project without alembic.ini."
_SHIPPED = "The migration that comes with pipestate."
_URL = "URL; else PIPESTATE_DATABASE_URL or DATABASE_URL, else sqlalchemy.url of alembic.ini."
_TABLE = "Alembic's version table, if pipestate does not find it: TABLE or SCHEMA.TABLE."
PROJECT_OPTIONS: dict[str, Any] = {
    "config": text_option("--config", "-c", metavar="INI", help=_INI, panel=PROJECT_PANEL),
    "section": text_option("--name", "-n", metavar="SECTION", help=_SECTION, panel=PROJECT_PANEL),
    "scripts": text_option("--scripts", metavar="DIR", help=_SCRIPTS, panel=PROJECT_PANEL),
    "shipped": flag("--shipped", help=_SHIPPED, panel=PROJECT_PANEL),
}
DATABASE_OPTIONS: dict[str, Any] = {
    "database_url": text_option("--database-url", metavar="URL", help=_URL, panel=DATABASE_PANEL),
    "version_table": text_option("--version-table", metavar="TABLE", help=_TABLE, panel=DATABASE_PANEL),
}


@dataclass(frozen=True)
class Target:
    """A project, and the selected database."""

    project: Project
    url: "URL"
    calls: Calls
    version_table: str | None = None
    warnings: tuple[str, ...] = ()

    @cached_property
    def migrations(self) -> "Migrations":
        from pipestate.project.revision_files import read_migrations

        return read_migrations(self.project)

    @cached_property
    def locate(self) -> "Locator":
        """The function that finds the database's place in the history, on a connection."""
        from pipestate.project.version_table import locator

        return locator(self.project, self.migrations, self.version_table)

    @contextmanager
    def connect(self, *, write: bool = False) -> "Iterator[tuple[Connection, Position]]":
        """Connect, read-only unless `write`; yield the connection and the database's place in the history."""
        from pipestate.database import connections as db

        with (db.writer if write else db.reader)(self.url) as connection:
            yield connection, self.locate(connection)


@dataclass(frozen=True)
class TargetIfAny:
    """A project, and the selected database, if any."""

    project: Project
    url: "URL | None"
    version_table: str | None = None


def project_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a command's first argument by its options: a Target, a TargetIfAny, a Project or a Named."""
    first, *rest = inspect.signature(function).parameters.values()
    on_database = first.annotation in (Target, TargetIfAny)

    def command(
        config: str | None, section: str | None, scripts: str | None, shipped: bool | None, **given: Any
    ) -> Any:
        files = (Path(each) if each else None for each in (config, scripts))
        named = Named(next(files), section, next(files), bool(shipped))
        if first.annotation is Named:
            return function(named, **given)
        project = find_project(named)
        if not on_database:
            return function(project, **given)
        database_url, table = (given.pop(option) for option in DATABASE_OPTIONS)
        ini_url = partial(project.option, "sqlalchemy.url")  # the last source
        if first.annotation is TargetIfAny:
            return function(TargetIfAny(project, known_url(database_url, ini_url=ini_url), table), **given)
        url = resolve_url(database_url, ini_url=ini_url)
        other = None if database_url else other_database(project, url)
        calls = Calls(project.named, shown(url) if database_url or other else None)
        return function(Target(project, url, calls, table, (other,) if other else ()), **given)

    options = PROJECT_OPTIONS | (DATABASE_OPTIONS if on_database else {})
    return with_options(command, function, rest, options)


_READS_VARIABLES = re.compile(r"\benviron\b|\bgetenv\b|DATABASE_URL|pipestate\.environment import .*\brun\b")


def other_database(project: Project, url: "URL") -> str | None:
    """Warn if a variable names this database, and the ini another one, which plain Alembic would migrate."""
    with suppress(PipestateError, OSError):
        own = parse_url(project.option("sqlalchemy.url") or "")
        env_py = (project.scripts / "env.py").read_text(encoding="utf-8", errors="replace")
        if place_of(own) != place_of(url) and not _READS_VARIABLES.search(env_py):
            return (
                f"a variable names {shown(url)}, and sqlalchemy.url names {shown(own)}: plain `alembic` migrates "
                "the latter, unless env.py takes the URL from elsewhere"
            )
    return None


def with_options(
    command: Callable[..., Any],
    function: Callable[..., Any],
    own: Iterable[inspect.Parameter],
    options: dict[str, Any],
) -> Callable[..., Any]:
    """Give `command` the name and help of `function`, and the signature from which Typer makes a command."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in options.items()
    ]
    parameters = [*(parameter.replace(kind=keyword) for parameter in own), *shared]
    update_wrapper(command, function)
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
