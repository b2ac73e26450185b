"""Pruning of the ledger: deletes old rows, and keeps the rows that gates depend on.

Rows written by migrations (gates, forces, purges, applied revisions) and the registry of created objects are
permanent. They are few, and they are the audit trail. These rows also stay, regardless of age:

- the records that a phase's `soak` depends on, and the closed record before them;
- the latest sign-off of each person, for each required sign-off;
- the latest observation of each name;
- the latest run of each backfill;
- the latest rehearsal of the same files, for each kind;
- the latest schema record, and the latest statement calls for each contract.

Older observations are deleted, because only the check knows how much history it needs. A check over
`pipestate.observed` that needs a week of observations sees only the remaining ones.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, TextClause, text

from pipestate.ledger.state import require_ledger
from pipestate.ledger.tables import qualified

# SQL condition for an old row, per engine.
BORDER = {
    "postgresql": "{time} < statement_timestamp() - make_interval(secs => :seconds)",
    "sqlite": "julianday({time}) < julianday('now') - :seconds / 86400.0",
}
# For each table: the time column, and a query for the ids that can be deleted at any age.
SPARE = {
    "run": (
        "recorded_at",
        "SELECT r.id FROM {run} r JOIN {soak} s ON s.runbook = r.runbook AND s.phase = r.phase "
        "WHERE r.event = 'verify' AND r.recorded_at < coalesce(s.last_closed_at, s.held_since)",
    ),
    "attestation": (
        "signed_at",
        "SELECT a.id FROM (SELECT id, row_number() OVER (PARTITION BY runbook, phase, name, "
        "lower(trim(person)) ORDER BY signed_at DESC, id DESC) AS place FROM {attestation}) a WHERE a.place > 1",
    ),
    "observation": (
        "observed_at",
        "SELECT o.id FROM (SELECT id, row_number() OVER (PARTITION BY name "
        "ORDER BY observed_at DESC, id DESC) AS place FROM {observation}) o WHERE o.place > 1",
    ),
    "backfill_progress": (
        "updated_at",
        "SELECT b.id FROM (SELECT id, row_number() OVER (PARTITION BY runbook, name ORDER BY id DESC) AS place "
        "FROM {backfill_progress}) b WHERE b.place > 1",
    ),
    "rehearsal": (
        "rehearsed_at",
        "SELECT r.id FROM (SELECT id, row_number() OVER (PARTITION BY kind, CAST(files AS text) "
        "ORDER BY rehearsed_at DESC, id DESC) AS place FROM {rehearsal}) r WHERE r.place > 1",
    ),
    "statement_calls": (
        "observed_at",
        "SELECT s.id FROM {statement_calls} s WHERE s.id < (SELECT max(o.id) FROM {statement_calls} o "
        "WHERE o.contract = s.contract)",
    ),
    "schema_record": (
        "recorded_at",
        "SELECT s.id FROM {schema_record} s WHERE s.id < (SELECT max(id) FROM {schema_record})",
    ),
}


@dataclass(frozen=True, slots=True)
class Old:
    """Number of deletable rows of a table; `looked_back_on` marks tables that checks may read back."""

    table: str
    rows: int
    looked_back_on: bool = False


def find_old(connection: Connection, older_than: timedelta) -> list[Old]:
    """Count the rows that `prune` would delete."""
    require_ledger(connection)
    found = []
    for name in SPARE:
        query = _statement(connection, "SELECT count(*) FROM", name)
        rows = int(connection.execute(query, {"seconds": older_than.total_seconds()}).scalar_one())
        found.append(Old(qualified(name, connection.dialect.name), rows, name == "observation"))
    return found


def prune(connection: Connection, older_than: timedelta) -> int:
    """Delete older rows; a run's results are deleted with it. Return the number of deleted rows."""
    require_ledger(connection)
    seconds = {"seconds": older_than.total_seconds()}
    return sum(
        connection.execute(_statement(connection, "DELETE FROM", name), seconds).rowcount for name in SPARE
    )


def _statement(connection: Connection, verb: str, name: str) -> TextClause:
    dialect = connection.dialect.name
    names = {each: qualified(each, dialect) for each in (*SPARE, "soak")}
    time, spare = SPARE[name]
    old = BORDER[dialect].format(time=time)
    return text(f"{verb} {names[name]} WHERE {old} AND id IN ({spare.format(**names)})")
