"""Protocol of the reconcile engines; the dialect name selects one implementation."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, Engine

from pipestate.database.connections import choose
from pipestate.pipeline.reconcile import postgresql, sqlite


class ReconcileEngine(Protocol):
    """Interface of each engine; the modules `postgresql` and `sqlite` document the functions."""

    def hold_lock(self, engine: Engine) -> AbstractContextManager[bool]: ...
    def age_hours(self, touched: ColumnElement[Any]) -> ColumnElement[Any]: ...
    def is_older(self, touched: ColumnElement[Any], hours: float) -> ColumnElement[bool]: ...
    def prepare_write(self, conn: Connection) -> None: ...


ENGINES: Mapping[str, ReconcileEngine] = {"postgresql": postgresql, "sqlite": sqlite}


def engine_of(on: Connection | Engine) -> ReconcileEngine:
    """Choose the implementation for a database."""
    return choose(ENGINES, on)
