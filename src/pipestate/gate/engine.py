"""The engine that a gate is asked on: one implementation for each, registered by the name of its dialect."""

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy import Connection

from pipestate.engines.choice import OfEngine, choose
from pipestate.gate import postgresql, sqlite


class GateEngine(Protocol):
    """What each engine must have; the modules of their names say what the functions do."""

    def require_transaction(self, connection: Connection, revision: str) -> None: ...
    def has_written(self, connection: Connection) -> bool: ...
    def require_script(self) -> None: ...


ENGINES: Mapping[str, GateEngine] = {"postgresql": postgresql, "sqlite": sqlite}


def engine_of(on: OfEngine) -> GateEngine:
    """Choose the implementation for a connection, or for Alembic's context."""
    return choose(ENGINES, on)
