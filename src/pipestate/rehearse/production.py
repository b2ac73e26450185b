"""Production beside the clone: its figures, and the record of a rehearsal in its ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import URL, text

from pipestate.core.errors import ConfigError
from pipestate.database import connections as db
from pipestate.ledger.record import Rehearsed, record_rehearsal
from pipestate.ledger.state import require_ledger
from pipestate.project.file_hashes import code_of, hash_files
from pipestate.rehearse.clone import Job, Table
from pipestate.rehearse.impact import STRONGEST, Rehearsal

OLDEST = text(
    "SELECT EXTRACT(epoch FROM max(clock_timestamp() - a.xact_start))::float8 FROM pg_catalog.pg_locks l "
    "JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid WHERE l.relation = to_regclass(:name) AND l.granted "
    "AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) "
    "AND a.pid <> pg_backend_pid()"
)
# A table that was never analysed has -1 rows; before PostgreSQL 14, zero pages.
ROWS = text(
    "SELECT CASE WHEN relkind = 'p' OR pg_relation_size(oid) = 0 THEN 0 WHEN reltuples >= 0 AND relpages > 0 "
    "THEN reltuples::int8 END AS rows, pg_table_size(oid) AS bytes FROM pg_catalog.pg_class WHERE oid = to_regclass(:name)"
)


def oldest_transactions(production: URL, tables: Sequence[Table]) -> dict[str, float | None]:
    """Return the age of production's oldest transaction on each table, in seconds, or None."""
    with db.reader(production) as connection:
        return {table.name: connection.execute(OLDEST, {"name": table.quoted}).scalar() for table in tables}


def count_rows(production: URL, tables: Sequence[Table]) -> dict[str, int]:
    """Return the planner's row count of each production table; if never analysed, an estimate by size."""
    with db.reader(production) as connection:
        found = {table: connection.execute(ROWS, {"name": table.quoted}).one_or_none() for table in tables}
    return {table.name: _rows(table, row.rows, row.bytes) for table, row in found.items() if row is not None}


def _rows(table: Table, rows: int | None, count: int) -> int:
    """Estimate the rows from the size, at the clone's density; a file with content has at least one row.

    >>> _rows(Table(1, "t", "t", rows=100, bytes=8192, file=None), None, 81920)
    1000
    """
    return rows if rows is not None else max(1, table.rows * count // max(table.bytes, 1))


def beside_production(production: URL, made: Rehearsal, tables: Sequence[Table]) -> Rehearsal:
    """Add production's rows to the impact, and its oldest transaction on each locked table."""
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


def require_recordable(job: Job) -> None:
    """Refuse, before anything runs, a rehearsal that could not be recorded."""
    with db.reader(_production(job)) as connection:
        job.locate(connection)
        require_ledger(connection)


def files_of(job: Job, pending: Sequence[str]) -> dict[str, str]:
    """Hash the code of the pending revisions before it runs; refuse unknown code."""
    paths = {revision: job.chain.by_id[revision].path for revision in pending}
    for revision, path in paths.items():
        unknown = code_of(path).unknown
        if unknown is not None:
            raise ConfigError(
                f"{revision} cannot be recorded: {unknown}, so a record could not say which code ran; "
                "import it by name, or leave out --record"
            )
    return hash_files(paths)


def as_record(made: Rehearsal, files: Mapping[str, str]) -> Rehearsed:
    """Build the ledger's row of a rehearsal; after a failure or a guess, no check passes."""
    failed = made.failure is not None or bool(made.writes.broken)
    return Rehearsed(
        revision=made.before,
        target=made.after,
        files=dict(files),
        clone=made.clone,
        ok=made.exit_code == 0,
        duration_ms=round(made.duration_ms, 1),
        rows=made.rows,
        longest_stall_ms=None if failed or made.beyond else round(made.longest_stall_ms, 1),
        noise_ms=round(made.noise_ms, 1),
        bounded=None if failed else made.bounded,
        tables={table.table: table.rows for table in made.tables},
        scale=None if made.beyond else max((table.scale or 1.0 for table in made.tables), default=1.0),
    )


def write_record(job: Job, done: Rehearsed) -> None:
    """Write the result into production's ledger."""
    with db.writer(_production(job)) as connection:
        job.locate(connection)
        record_rehearsal(connection, done)


def _production(job: Job) -> URL:
    if job.production is None:
        raise ConfigError(
            "--record writes into production's ledger, and no production is known: name it with --database-url"
        )
    return job.production
