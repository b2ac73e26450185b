"""What the ledger's rows are read from: a connection, the phases that are meant, and how far back to look."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Select,
    TableClause,
    and_,
    case,
    column,
    or_,
)
from sqlalchemy import table as table_of

from pipestate.engines.choice import choose
from pipestate.ledger.history import EARLIEST, LATEST, in_utc
from pipestate.ledger.tables import NAMING, Ledger, ledger_on

# What is older than this is for `pipestate history`: each query reads a bounded piece of an index.
HORIZON = timedelta(days=90)
AHEAD = timedelta(minutes=5)  # so far may another machine's clock be before the server's


@dataclass(frozen=True, slots=True)
class LedgerReading:
    """The ledger at one moment. `phases` are pairs of runbook and phase."""

    connection: Connection
    now: datetime
    phases: tuple[tuple[str, str], ...]

    @property
    def ledger(self) -> Ledger:
        return ledger_on(self.connection.dialect.name)

    def rows(self, query: "Select[Any]") -> list[Any]:
        return list(self.connection.execute(query))

    def of_phases(self, runbook: "ColumnElement[Any]", phase: "ColumnElement[Any]") -> "ColumnElement[bool]":
        """Choose the rows of the phases that are meant."""
        return or_(False, *(and_(runbook == book, phase == name) for book, name in self.phases))

    def lately(self, at: "ColumnElement[Any]", span: timedelta = HORIZON) -> "ColumnElement[bool]":
        """Choose the rows of a span of time; it leaves out the times that Python does not know."""
        return at.between(self.now - span, self.now + AHEAD)

    def view(self, name: str, times: tuple[str, ...], *others: str) -> TableClause:
        """Describe a view of the ledger; its times are read as times on each engine."""
        columns: list[Column[Any]] = [column(each, DateTime(timezone=True)) for each in times]  # type: ignore[misc]
        columns += [column(each) for each in others]  # type: ignore[misc]
        naming = choose(NAMING, self.connection)
        return table_of(f"{naming.prefix}{name}", *columns, schema=naming.schema)


def readable(moment: "ColumnElement[Any]") -> "ColumnElement[Any]":
    """Select a time, or NULL where Python does not know such a time."""
    return case((moment.between(EARLIEST, LATEST), moment)).label(getattr(moment, "key", None))


def known_in_utc(moment: datetime | None) -> datetime | None:
    """Give a time its zone, where there is a time."""
    return None if moment is None else in_utc(moment)
