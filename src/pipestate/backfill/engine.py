"""One implementation an engine, chosen once, by the name of the connection's dialect."""

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy import Connection

from pipestate.backfill import postgresql, sqlite
from pipestate.backfill.source import Key, Range
from pipestate.errors import ConfigError
from pipestate.runbook.model import Backfill


class Engine(Protocol):
    """What each engine must have; the modules of their names say what the functions do."""

    def begin(self, connection: Connection) -> None: ...
    def begin_look(self, connection: Connection) -> None: ...
    def take_turn(self, connection: Connection, address: str) -> bool: ...
    def give_turn(self, connection: Connection, address: str) -> None: ...
    def look_at(self, connection: Connection, backfill: Backfill) -> Key: ...
    def next_range(self, connection: Connection, key: Key, after: str | None, size: int) -> Range | None: ...
    def extremes(self, connection: Connection, key: Key) -> tuple[str, str] | None: ...
    def estimate(self, connection: Connection, statement: str) -> int: ...
    def waited_for(self, connection: Connection) -> bool: ...
    def blockers(self, connection: Connection, key: Key) -> str: ...
    def lag(self, connection: Connection) -> float: ...


ENGINES: Mapping[str, Engine] = {"postgresql": postgresql, "sqlite": sqlite}


def engine_of(connection: Connection) -> Engine:
    name = connection.dialect.name
    if name not in ENGINES:
        raise ConfigError(f"backfills know {' and '.join(ENGINES)}, not {name}")
    return ENGINES[name]
