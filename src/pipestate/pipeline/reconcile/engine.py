"""The engine that is reconciled: one implementation for each, registered by the name of its dialect."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Engine

from pipestate.engines.choice import choose
from pipestate.pipeline.reconcile import postgresql, sqlite


class ReconcileEngine(Protocol):
    """What each engine must have; the modules of their names say what the functions do."""

    def hold_lock(self, engine: Engine) -> AbstractContextManager[bool]: ...
    def age_hours(self, touched: ColumnElement[Any]) -> ColumnElement[Any]: ...
    def is_older(self, touched: ColumnElement[Any], hours: float) -> ColumnElement[bool]: ...
    def prepare_write(self, conn: Connection) -> None: ...


ENGINES: Mapping[str, ReconcileEngine] = {"postgresql": postgresql, "sqlite": sqlite}


def engine_of(on: Connection | Engine) -> ReconcileEngine:
    """Choose the implementation for a database."""
    return choose(ENGINES, on)
