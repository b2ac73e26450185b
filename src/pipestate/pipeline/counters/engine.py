"""The engine that counts: one implementation for each, registered by the name of its dialect."""

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy import Connection

from pipestate.pipeline.counters import postgresql, sqlite
from pipestate.pipeline.counters.finish_sql import FinishSql
from pipestate.pipeline.counters.outcome import JobOutcome


class CountersEngine(Protocol):
    """What each engine must have; the modules of their names say what the functions do."""

    def finish_keyed(
        self, conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str], key: str
    ) -> JobOutcome: ...
    def finish_late(
        self, conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str]
    ) -> JobOutcome: ...


ENGINES: Mapping[str, CountersEngine] = {"postgresql": postgresql, "sqlite": sqlite}
