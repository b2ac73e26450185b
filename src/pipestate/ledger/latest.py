"""Latest state in the ledger: last record of each phase, last value of each observation.

Times are seconds since 1970; ages are seconds by the server's clock. None means a missing value.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from pipestate.ledger.state import has_ledger, require_trusted

_RECORDS = {
    "postgresql": """SELECT runbook, phase, held_since IS NOT NULL AS is_open,
            CASE WHEN isfinite(last_record_at) THEN extract(epoch FROM last_record_at) END AS at,
            CASE WHEN hours_since_last_record IS NOT NULL THEN
                greatest(0, extract(epoch FROM statement_timestamp() - last_record_at)) END AS age,
            CASE WHEN held_since IS NOT NULL THEN
                greatest(0, extract(epoch FROM statement_timestamp() - held_since)) END AS held
        FROM pipestate.soak ORDER BY runbook, phase""",
    "sqlite": """SELECT runbook, phase, held_since IS NOT NULL AS is_open,
            unixepoch(last_record_at) AS at,
            CASE WHEN hours_since_last_record IS NOT NULL THEN
                max(0, unixepoch('now') - unixepoch(last_record_at)) END AS age,
            max(0, unixepoch('now') - unixepoch(held_since)) AS held
        FROM pipestate_soak ORDER BY runbook, phase""",
}
_OBSERVATIONS = {
    "postgresql": """SELECT name, value, extract(epoch FROM observed_at) AS at, age_seconds AS age
        FROM pipestate.latest_observation ORDER BY name""",
    "sqlite": """SELECT name, value, unixepoch(observed_at) AS at, age_seconds AS age
        FROM pipestate_latest_observation ORDER BY name""",
}


@dataclass(frozen=True, slots=True)
class LastRecord:
    """Last result of `verify --record` for a phase.

    `held_s` is the time that the phase has been open without a closed record.
    """

    runbook: str
    phase: str
    is_open: bool
    at: float | None
    age_s: float | None
    held_s: float | None


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
    return tuple(
        LastRecord(
            row.runbook, row.phase, bool(row.is_open), _float(row.at), _float(row.age), _float(row.held)
        )
        for row in _rows(connection, _RECORDS)
    )


def last_observations(connection: Connection) -> tuple[LastObservation, ...]:
    """Read the newest observation of each name."""
    return tuple(
        LastObservation(row.name, float(row.value), _float(row.at), _float(row.age))
        for row in _rows(connection, _OBSERVATIONS)
    )


def _rows(connection: Connection, queries: dict[str, str]) -> list[Any]:
    query = queries[connection.dialect.name]
    return list(connection.exec_driver_sql(query, execution_options={"no_parameters": True}))


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
