"""The engine that is migrated: one implementation for each, registered by the name of its dialect."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy import URL, Connection

from pipestate.ddl.failure import MigrationError
from pipestate.engines.choice import OfEngine, choose
from pipestate.environment import postgresql, sqlite
from pipestate.errors import ConfigError


class MigratedEngine(Protocol):
    """What each engine must have; the modules of their names say what the functions do."""

    CONNECT_ARGUMENTS: dict[str, Any]

    def session(self, connection: Connection, *, locked: bool) -> AbstractContextManager[None]: ...
    def hold_lock(self, connection: Connection) -> AbstractContextManager[None]: ...
    def assert_lock(self, connection: Connection) -> None: ...
    def require_recordable(self, connection: Connection) -> None: ...
    def broken_references(self, connection: Connection) -> set[tuple[Any, ...]]: ...
    def is_new(self, url: URL) -> bool: ...
    def is_same(self, connection: Connection, url: URL) -> bool: ...
    def write_head(self, migration: MigrationContext) -> None: ...
    def assert_start(self, migration: MigrationContext, step: RevisionStep) -> None: ...


ENGINES: Mapping[str, MigratedEngine] = {"postgresql": postgresql, "sqlite": sqlite}


def engine_of(on: OfEngine) -> MigratedEngine:
    """Choose the implementation for a connection, a URL, or Alembic's context."""
    try:
        return choose(ENGINES, on)
    except ConfigError as error:
        raise MigrationError(str(error)) from error
