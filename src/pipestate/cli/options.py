"""Options that every verb shares, and what they resolve to."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate import config
from pipestate.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import URL

    from pipestate.chain.position import Position

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="The database; else PIPESTATE_DATABASE_URL, DATABASE_URL, or sqlalchemy.url in alembic.ini.",
        show_default=False,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="INI",
        help="Another project's alembic.ini; else ALEMBIC_CONFIG.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


@dataclass(frozen=True, slots=True)
class Target:
    """Which database, of which Alembic project."""

    url: "URL"
    ini: Path

    @property
    def alembic(self) -> str:
        """How to call Alembic for this project from here."""
        if self.ini == Path("alembic.ini") or os.environ.get("ALEMBIC_CONFIG") == str(self.ini):
            return "alembic"
        shipped = self.ini == config.project_root() / "alembic.ini"
        return 'alembic -c "$(pipestate --alembic-ini)"' if shipped else f"alembic -c {self.ini}"

    def revisions(self) -> "Position":
        from pipestate import db
        from pipestate.chain.revisions import revisions_at

        with db.reader(self.url) as connection:
            return revisions_at(connection, self.ini)


def project_ini(given: Path | None) -> Path:
    """The one that is named, the one in ALEMBIC_CONFIG, the one here if it exists, else the shipped one."""
    if given is not None:
        return _existing(given, "--config")
    named = Path(os.environ.get("ALEMBIC_CONFIG", ""))
    if named.suffix == ".ini":  # Alembic also takes a pyproject.toml there
        return _existing(named, "ALEMBIC_CONFIG")
    here = Path("alembic.ini")
    return here if here.is_file() else config.project_root() / "alembic.ini"


def _existing(path: Path, source: str) -> Path:
    if not path.is_file():
        raise ConfigError(f"there is no {path}: {source} takes the path of an alembic.ini")
    return path


def target(database_url: str | None, ini: Path | None) -> Target:
    path = project_ini(ini)
    return Target(config.resolve_url(database_url, ini_url=config.ini_url(path)), path)
