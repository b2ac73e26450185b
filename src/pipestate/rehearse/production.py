"""What production is asked, beside the clone: how many rows its tables have, and how old its transactions are."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import URL, text

from pipestate import db
from pipestate.rehearse.clone import Table
from pipestate.rehearse.felt import STRONGEST, Rehearsal

OLDEST = text(
    "SELECT EXTRACT(epoch FROM max(clock_timestamp() - a.xact_start))::float8 FROM pg_locks l "
    "JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.relation = to_regclass(:name) AND l.granted "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND a.pid <> pg_backend_pid()"
)
# A table that was never analyzed has -1; before PostgreSQL 14, no pages.
ROWS = text(
    "SELECT CASE WHEN relkind = 'p' THEN 0 WHEN reltuples >= 0 AND (relpages > 0 OR pg_relation_size(oid) = 0) "
    "THEN reltuples::int8 END FROM pg_class WHERE oid = to_regclass(:name)"
)


def oldest_transactions(production: URL, tables: Sequence[Table]) -> dict[str, float | None]:
    """Say for each table how many seconds production's oldest transaction on it has lasted; None where there is none."""
    with db.reader(production) as connection:
        return {table.name: connection.execute(OLDEST, {"name": table.quoted}).scalar() for table in tables}


def count_rows(production: URL, tables: Sequence[Table]) -> dict[str, int | None]:
    """Say for each table how many rows the planner of production knows; None where it has not looked."""
    with db.reader(production) as connection:
        return {table.name: connection.execute(ROWS, {"name": table.quoted}).scalar() for table in tables}


def beside_production(production: URL, made: Rehearsal, tables: Sequence[Table]) -> Rehearsal:
    """Put beside what was felt on the clone how many rows production has, and who is in the way there now."""
    locked = {each.table for each in made.tables if STRONGEST in each.modes}
    touched = {each.table for each in made.tables}
    known = count_rows(production, [table for table in tables if table.name in touched])
    oldest = oldest_transactions(production, [table for table in tables if table.name in locked])
    return replace(
        made,
        oldest=oldest,
        revisions=tuple(
            replace(
                revision,
                tables=tuple(
                    replace(each, production_rows=known.get(each.table)) for each in revision.tables
                ),
            )
            for revision in made.revisions
        ),
    )
