"""Protocol of the counting engines; the dialect name selects one implementation."""

from collections.abc import Mapping
from typing import Protocol

from sqlalchemy import Connection

from pipestate.pipeline.counters import postgresql, sqlite
from pipestate.pipeline.counters.finish_sql import FinishSql
from pipestate.pipeline.counters.outcome import JobOutcome


class CountersEngine(Protocol):
    """Interface of each engine; the modules `postgresql` and `sqlite` document the functions."""

    def finish_keyed(
        self, conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str], key: str
    ) -> JobOutcome: ...
    def finish_late(
        self, conn: Connection, sql: FinishSql, stage: str, parameters: dict[str, str]
    ) -> JobOutcome: ...


ENGINES: Mapping[str, CountersEngine] = {"postgresql": postgresql, "sqlite": sqlite}
