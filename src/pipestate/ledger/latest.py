"""Latest state in the ledger: last record of each phase, last value of each observation.

Times are seconds since 1970; ages are seconds by the server's clock. None means a missing value.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from pipestate.database.drivers import run_as_written
from pipestate.ledger.state import has_ledger, require_trusted
from pipestate.ledger.tables import query


@dataclass(frozen=True, slots=True)
class LastRecord:
    """Last result of `verify --record` for a phase.

    `open_s` is the time that the phase has been open without a closed record.
    """

    runbook: str
    phase: str
    is_open: bool
    at: float | None
    age_s: float | None
    open_s: float | None


@dataclass(frozen=True, slots=True)
class LastObservation:
    name: str
    value: float
    at: float | None
    age_s: float | None


@dataclass(frozen=True, slots=True)
class Latest:
    records: tuple[LastRecord, ...]
    observations: tuple[LastObservation, ...]


def read_latest(connection: Connection) -> Latest | None:
    """Read records and observations; None if the ledger is missing.

    Raise ConfigError if the ledger is outdated or owned by another role.
    """
    if not has_ledger(connection):
        return None
    require_trusted(connection)
    return Latest(last_records(connection), last_observations(connection))


def last_records(connection: Connection) -> tuple[LastRecord, ...]:
    """Read the last record of each recorded phase."""
    rows = _rows(connection, "last_records")
    return tuple(LastRecord(**{**row, "is_open": bool(row["is_open"])}) for row in rows)


def last_observations(connection: Connection) -> tuple[LastObservation, ...]:
    """Read the newest observation of each name."""
    return tuple(LastObservation(**row) for row in _rows(connection, "last_observations"))


def _rows(connection: Connection, name: str) -> list[Any]:
    return list(run_as_written(connection, query(name, connection.dialect.name)).mappings())
