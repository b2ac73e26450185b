"""The engine that the ledger is installed on: one implementation for each, registered by the name of its dialect."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sqlalchemy import Connection

from pipestate.engines.choice import OfEngine, choose
from pipestate.ledger import postgresql, sqlite


class LedgerEngine(Protocol):
    """What each engine must have; the modules of their names say what the functions do."""

    def statements(self, only: Sequence[str] | None) -> list[str]: ...
    def additions(self, connection: Connection) -> list[str]: ...


ENGINES: Mapping[str, LedgerEngine] = {"postgresql": postgresql, "sqlite": sqlite}


def engine_of(on: OfEngine) -> LedgerEngine:
    """Choose the implementation for a connection or the name of a dialect."""
    return choose(ENGINES, on)
