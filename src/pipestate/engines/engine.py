"""What the packages above must know of an engine: facts, and how a connection begins.

`pipestate.engines.postgresql` and `pipestate.engines.sqlite` have the same names; mypy compares them with `Engine`.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa

from pipestate.engines import postgresql, sqlite
from pipestate.engines.choice import OfEngine, choose


class Engine(Protocol):
    """What each engine must have; the modules of their names say what the functions do.

    `IS_FILE`: the database is a file with one writer; there is no server, and there are no sessions to look at.
    `HAS_ROLES`: tables and functions belong to roles, and some of them may be strangers.
    `HAS_SETTINGS`: SQL can be told something until the end of the transaction.
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
    """Choose the engine of a connection, of Alembic's context, of a URL, or of a dialect's name."""
    return choose(ENGINES, on)
