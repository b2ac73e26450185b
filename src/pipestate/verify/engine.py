"""The engine that checks are read on: one implementation for each, registered by the name of its dialect."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection

from pipestate.engines.choice import choose
from pipestate.verify import postgresql, sqlite
from pipestate.verify.values import QueryResult


class VerifyEngine(Protocol):
    """What each engine must have; the modules of their names say what the functions do."""

    def guarded(self, connection: Connection, timeout_s: float) -> AbstractContextManager[str]: ...
    def read_rows(self, connection: Connection, first: str, sql: str, most: int) -> QueryResult: ...
    def fence(self, connection: Connection) -> AbstractContextManager[None]: ...


ENGINES: Mapping[str, VerifyEngine] = {"postgresql": postgresql, "sqlite": sqlite}


def engine_of(connection: Connection) -> VerifyEngine:
    """Choose the implementation for the database of a connection."""
    return choose(ENGINES, connection)
