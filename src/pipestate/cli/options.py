"""Options that commands share: the project and the database. A command requests them by its first argument.

    @project_options
    def history(to: Target, limit: ...) -> None:

The argument's type selects the options. Target is a project and its database; in TargetIfAny the database is
optional. Project is a project alone, and Named holds the options that name one.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipestate.database.urls import known_url, resolve_url, shown
from pipestate.project.find import Calls, Named, Project, find_project

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pipestate.project.graph import Chain, Position
    from pipestate.project.version_table import Locator

PROJECT_PANEL = "Which project"
DATABASE_PANEL = "Which database"
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def _option(*names: str, metavar: str | None, help: str, panel: str = PROJECT_PANEL) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, show_default=False, rich_help_panel=panel)


PROJECT_OPTIONS: dict[str, Any] = {
    "config": Annotated[
        str | None,
        _option(
            "--config",
            "-c",
            metavar="INI",
            help="Its alembic.ini; else ALEMBIC_CONFIG, else the one in this directory.",
        ),
    ],
    "section": Annotated[
        str | None,
        _option(
            "--name", "-n", metavar="SECTION", help="Its section in that file, where it is not \\[alembic]."
        ),
    ],
    "scripts": Annotated[
        str | None,
        _option("--scripts", metavar="DIR", help="Its directory with env.py, where it has no alembic.ini."),
    ],
    "shipped": Annotated[
        bool, _option("--shipped", metavar=None, help="The migration that comes with pipestate.")
    ],
}
DATABASE_OPTIONS: dict[str, Any] = {
    "database_url": Annotated[
        str | None,
        _option(
            "--database-url",
            metavar="URL",
            help="Else PIPESTATE_DATABASE_URL or DATABASE_URL, else sqlalchemy.url of alembic.ini.",
            panel=DATABASE_PANEL,
        ),
    ],
    "version_table": Annotated[
        str | None,
        _option(
            "--version-table",
            metavar="TABLE",
            help="Alembic's version table, where pipestate does not find it: TABLE or SCHEMA.TABLE.",
            panel=DATABASE_PANEL,
        ),
    ],
}


@dataclass(frozen=True)
class Target:
    """A project, and the selected database."""

    project: Project
    url: "URL"
    calls: Calls
    version_table: str | None = None

    @cached_property
    def chain(self) -> "Chain":
        from pipestate.project.revision_files import read_chain

        return read_chain(self.project)

    @cached_property
    def locate(self) -> "Locator":
        """The function that finds the database's place in the chain, on a connection."""
        from pipestate.project.version_table import locator

        return locator(self.project, self.chain, self.version_table)

    def position(self) -> "Position":
        """Connect, and return the database's place in the chain."""
        from pipestate.database import connections as db

        with db.reader(self.url) as connection:
            return self.locate(connection)


@dataclass(frozen=True)
class TargetIfAny:
    """A project, and the selected database, if any."""

    project: Project
    url: "URL | None"
    version_table: str | None = None


def _make_target_if_any(project: Project, database_url: str | None, version_table: str | None) -> TargetIfAny:
    url = known_url(database_url, ini_url=lambda: project.option("sqlalchemy.url"))
    return TargetIfAny(project, url, version_table)


def make_target(
    project: Project, database_url: str | None = None, version_table: str | None = None
) -> Target:
    """Resolve the database's URL; the ini file is the last source."""
    url = resolve_url(database_url, ini_url=lambda: project.option("sqlalchemy.url"))
    return Target(project, url, Calls(project.named, shown(url) if database_url else None), version_table)


def _named(config: str | None, section: str | None, scripts: str | None, shipped: bool | None) -> Named:
    return Named(Path(config) if config else None, section, Path(scripts) if scripts else None, bool(shipped))


def project_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a command's first argument by its options: a Target, a TargetIfAny, a Project or a Named."""
    first, *rest = inspect.signature(function).parameters.values()

    def command(**given: Any) -> Any:
        named = _named(**{option: given.pop(option) for option in PROJECT_OPTIONS})
        if first.annotation is Named:
            return function(named, **given)
        if first.annotation is Project:
            return function(find_project(named), **given)
        database = {option: given.pop(option) for option in DATABASE_OPTIONS}
        make = _make_target_if_any if first.annotation is TargetIfAny else make_target
        return function(make(find_project(named), **database), **given)

    command.__name__, command.__doc__, command.__module__ = (
        function.__name__,
        function.__doc__,
        function.__module__,
    )
    return with_options(
        command,
        rest,
        PROJECT_OPTIONS | (DATABASE_OPTIONS if first.annotation in (Target, TargetIfAny) else {}),
    )


def with_options(
    command: Callable[..., Any], own: list[inspect.Parameter], options: dict[str, Any]
) -> Callable[..., Any]:
    """Give a function the signature from which Typer makes a command."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter(name, keyword, default=None, annotation=annotation)
        for name, annotation in options.items()
    ]
    parameters = [*(parameter.replace(kind=keyword) for parameter in own), *shared]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command
