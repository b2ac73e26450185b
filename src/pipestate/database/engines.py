"""Select the implementation registered under the name of a dialect. Imports no library."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa

from pipestate.core.errors import ConfigError
from pipestate.database import postgresql, sqlite

T = TypeVar("T")


class OfDialect(Protocol):
    """A connection, an engine of SQLAlchemy, or Alembic's context."""

    @property
    def dialect(self) -> Any: ...


class Addressed(Protocol):
    """A URL."""

    def get_backend_name(self) -> str: ...


OfEngine = OfDialect | Addressed | str


def choose(implementations: Mapping[str, T], on: OfEngine) -> T:
    """Select the implementation for an engine; raise a readable error if there is none."""
    name = name_of(on)
    if name not in implementations:
        raise ConfigError(f"pipestate works with PostgreSQL and SQLite, not with {name}")
    return implementations[name]


def name_of(on: OfEngine) -> str:
    """Return the name of the engine of a connection, a context or a URL.

    >>> name_of("sqlite")
    'sqlite'
    """
    if isinstance(on, str):
        return on
    if (backend := getattr(on, "get_backend_name", None)) is not None:
        return str(backend())
    return str(on.dialect.name)  # type: ignore[union-attr]


# Properties of an engine that other packages need, and the start of a connection.
#
# `pipestate.database.postgresql` and `pipestate.database.sqlite` have the same names; mypy compares them with `Engine`.


class Engine(Protocol):
    """Interface of an engine; the modules of the engines document the functions.

    `IS_FILE`: the database is a file with one writer, without server or sessions.
    `HAS_ROLES`: tables and functions belong to roles, possibly to other roles.
    `HAS_SETTINGS`: SQL can set a value until the end of the transaction.
    """

    IS_FILE: bool
    HAS_ROLES: bool
    HAS_SETTINGS: bool

    def create_engine(self, url: sa.URL, *, readonly: bool) -> sa.Engine: ...
    def begin_reading(
        self, connection: sa.Connection, *, snapshot: str | None, path: Sequence[str]
    ) -> sa.Connection: ...
    def begin_writing(self, connection: sa.Connection) -> None: ...
    def look(self, connection: sa.Connection) -> AbstractContextManager[None]: ...
    def server_version(self, connection: sa.Connection) -> str: ...
    def database_name(self, url: sa.URL) -> str | None: ...
    def address(self, url: sa.URL) -> tuple[object, ...]: ...


ENGINES: Mapping[str, Engine] = {"postgresql": postgresql, "sqlite": sqlite}


def engine_of(on: OfEngine) -> Engine:
    """Select the engine of a connection, Alembic's context, a URL or a dialect name."""
    return choose(ENGINES, on)
