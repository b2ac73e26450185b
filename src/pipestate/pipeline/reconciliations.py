"""The account of reconciliations: begun, ended, and their lines of `pipestate history`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, inspect, update

from pipestate.errors import ConfigError
from pipestate.ledger.actor import who
from pipestate.ledger.history import Entry, Source, Wanted, in_utc
from pipestate.schema import pipeline_reconciliation

KIND = "reconciliation"
# How many sites of a run are told one by one.
DETAILS = 1000
# The time of writing, not of the beginning of the transaction.
CLOCK = {"postgresql": func.clock_timestamp(), "sqlite": func.now()}


def begin_reconciliation(connection: Connection, *, manual: bool, revision: str | None) -> int:
    """Record that a run has begun; return its id. Without an end, it was killed or broke off."""
    if not inspect(connection).has_table(pipeline_reconciliation.name):
        raise ConfigError(
            "this database has no account of reconciliations yet: run alembic upgrade 0003 first"
        )
    table = pipeline_reconciliation
    values = {"triggered_by": "manual" if manual else "cron", "actor": who(), "revision": revision}
    return int(connection.execute(insert(table).values(**values).returning(table.c.id)).scalar_one())


def end_reconciliation(
    connection: Connection,
    run: int,
    counts: Mapping[str, int],
    details: list[dict[str, str]],
    *,
    broke_off: str | None,
) -> None:
    """Record what became of a run; one that broke off keeps no end, and says why."""
    table = pipeline_reconciliation
    told = details[:DETAILS] + ([{"error": broke_off}] if broke_off else [])
    values: dict[str, Any] = {"found": len(details), "details": told or None, **counts}
    if broke_off is None:
        values["finished_at"] = CLOCK[connection.dialect.name]
    connection.execute(update(table).where(table.c.id == run).values(values))


def _lines(connection: Connection, wanted: Wanted) -> Sequence[Entry]:
    table = pipeline_reconciliation
    if wanted.runbook is not None or not inspect(connection).has_table(table.name):
        return []
    return [
        Entry(
            in_utc(row.started_at),
            row.id,
            KIND,
            row.actor,
            f"found {row.found}, recovered {row.recovered} ({row.triggered_by})",
            row.revision,
        )
        for row in connection.execute(wanted.newest(table, table.c.started_at))
    ]


history = Source((KIND,), _lines)
