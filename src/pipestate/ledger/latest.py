"""Latest state in the ledger: last record of each phase, last value of each observation, and changes.

Times are seconds since 1970; ages are seconds by the server's clock. None means a missing value.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from pipestate.database.connections import engine_of
from pipestate.ledger.state import has_ledger, require_ledger, require_trusted
from pipestate.ledger.tables import query
from pipestate.verify.report import Gate, PhaseReport, Report

# One record per day, plus six hours for a late job or a clock change.
MISSING_AFTER_S = 30 * 3600


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
    rows = _rows(connection, "last_records")
    return tuple(LastRecord(**{**row, "is_open": bool(row["is_open"])}) for row in rows)


def last_observations(connection: Connection) -> tuple[LastObservation, ...]:
    """Read the newest observation of each name."""
    return tuple(LastObservation(**row) for row in _rows(connection, "last_observations"))


def _rows(connection: Connection, name: str) -> list[Any]:
    read = query(name, connection.dialect.name)
    return list(connection.exec_driver_sql(read, execution_options={"no_parameters": True}).mappings())


@dataclass(frozen=True, slots=True)
class Change:
    """Change of one phase: its gate changed, the record before this one is overdue, or both."""

    runbook: str
    phase: PhaseReport
    turned: bool
    last: LastRecord | None

    @property
    def missing_s(self) -> float | None:
        """Return the overdue age of the previous record; None if it was recent enough."""
        age = self.last.age_s if self.last else None
        return age if age is not None and age > MISSING_AFTER_S else None


def read_changes(connection: Connection, report: Report) -> tuple[Change, ...]:
    """Compare an unrecorded run with the ledger, in a read-only savepoint."""
    require_ledger(connection)
    with engine_of(connection).look(connection):
        last = last_records(connection)
    return compare(report, last)


def compare(report: Report, last: Iterable[LastRecord]) -> tuple[Change, ...]:
    """Find the changes; the first record of a phase is a change if its gate is open."""
    before = {(each.runbook, each.phase): each for each in last}
    found = (_change(runbook.name, phase, before) for runbook, phase in report.phases())
    return tuple(change for change in found if change.turned or change.missing_s is not None)


def _change(runbook: str, phase: PhaseReport, before: dict[tuple[str, str], LastRecord]) -> Change:
    last = before.get((runbook, phase.name))
    if phase.gate not in (Gate.OPEN, Gate.CLOSED):  # not evaluated, so not recorded
        return Change(runbook, phase, False, None)
    was_open = last is not None and last.is_open
    return Change(runbook, phase, (phase.gate is Gate.OPEN) != was_open, last)
