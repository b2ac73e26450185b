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
# For each table: the time column, what a row is about, and the order. The latest row about each thing stays.
LATEST = {
    "attestation": ("signed_at", "runbook, phase, name, lower(trim(person))", "signed_at"),
    "observation": ("observed_at", "name", "observed_at"),
    "backfill_progress": ("updated_at", "runbook, name", "id"),
    "rehearsal": ("rehearsed_at", "kind, CAST(files AS text)", "rehearsed_at"),
    "statement_calls": ("observed_at", "contract", "id"),
    "schema_record": ("recorded_at", "1", "id"),
}
OLDER = (
    "SELECT o.id FROM (SELECT id, row_number() OVER (PARTITION BY {about} ORDER BY {newest} DESC, id DESC) AS place "
    "FROM {table}) o WHERE o.place > 1"
)
BEFORE_SOAK = (
    "SELECT r.id FROM {run} r JOIN {soak} s ON s.runbook = r.runbook AND s.phase = r.phase "
    "WHERE r.event = 'verify' AND r.recorded_at < coalesce(s.last_closed_at, s.open_since)"
)
TABLES = ("run", *LATEST)


@dataclass(frozen=True, slots=True)
class Old:
    """Number of deletable rows of a table; `is_read_back` marks tables that checks may read back."""

    table: str
    rows: int
    is_read_back: bool = False


def find_old(connection: Connection, older_than: timedelta) -> list[Old]:
    """Count the rows that `prune` would delete."""
    require_ledger(connection)
    found = []
    for name in TABLES:
        query = _statement(connection, "SELECT count(*) FROM", name)
        rows = int(connection.execute(query, {"seconds": older_than.total_seconds()}).scalar_one())
        found.append(Old(qualified(name, connection.dialect.name), rows, name == "observation"))
    return found


def prune(connection: Connection, older_than: timedelta) -> int:
    """Delete older rows; a run's results are deleted with it. Return the number of deleted rows."""
    require_ledger(connection)
    seconds = {"seconds": older_than.total_seconds()}
    return sum(
        connection.execute(_statement(connection, "DELETE FROM", name), seconds).rowcount for name in TABLES
    )


def _statement(connection: Connection, verb: str, name: str) -> TextClause:
    dialect = connection.dialect.name
    table = qualified(name, dialect)
    if name == "run":
        time, spare = "recorded_at", BEFORE_SOAK.format(run=table, soak=qualified("soak", dialect))
    else:
        time, about, newest = LATEST[name]
        spare = OLDER.format(about=about, newest=newest, table=table)
    return text(f"{verb} {table} WHERE {BORDER[dialect].format(time=time)} AND id IN ({spare})")
