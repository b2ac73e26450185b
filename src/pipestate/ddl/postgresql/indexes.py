"""Indexes: built concurrently, rebuilt where an interrupted build left an INVALID one."""

from alembic import op
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from pipestate.ddl import objects, sql
from pipestate.ddl.definitions import Index
from pipestate.ddl.failure import MigrationError, sqlstate
from pipestate.ddl.postgresql.locks import SESSION_LOCK_TIMEOUT

BUILD_PATIENCE = "10min"

# CREATE INDEX CONCURRENTLY waits for every transaction that is older than it.
OLDEST_TRANSACTION = text(
    "SELECT format('pid %s (%s), in a transaction since %s: %s', pid, application_name, "
    "xact_start::timestamptz(0), left(query, 200)) FROM pg_stat_activity "
    "WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
)


def create_index(index: Index) -> None:
    """Make sure that the index exists, is valid and is what it says; writers go on meanwhile.

    1. An index of that name with another definition is somebody else's: refuse.
    2. An INVALID one is what an interrupted build left: drop it concurrently.
    3. Build what is missing, concurrently.
    """
    exists = _exists(index)
    sql.refuse_when(
        f"EXISTS (SELECT FROM pg_index i JOIN pg_am m ON m.amname = 'btree' "
        f"WHERE i.indexrelid = {sql.regclass(index.name)} AND ({_is_other(index)}))",
        f"index {index.name} exists with another definition: {{actual}}; wanted: {index.statement()}. "
        "Drop or rename it, then run the same again",
        actual=f"pg_get_indexdef({sql.regclass(index.name)})",
    )
    sql.do_when(f"NOT {exists}", objects.remember("index", index.name))
    with sql.autocommit():
        sql.emit(f"SET lock_timeout = '{BUILD_PATIENCE}'")
        try:
            sql.execute_when(
                f"DROP INDEX CONCURRENTLY {sql.name(index.name)}", f"{exists} AND NOT {_valid(index)}"
            )
            sql.execute_when(index.statement(concurrently=True), f"NOT {exists}")
        except DBAPIError as error:
            raise _who_was_in_the_way(error, index) from error
        sql.emit(f"SET lock_timeout = '{SESSION_LOCK_TIMEOUT}'")
        sql.break_off_unless(_valid(index))


def drop_index(name: str) -> None:
    """Drop an index of ours without blocking anybody."""
    with sql.autocommit():
        sql.execute_when(
            f"DROP INDEX CONCURRENTLY IF EXISTS {sql.name(name)}",
            f"{sql.regclass(name)} IS NOT NULL AND {objects.is_ours('index', name)}",
        )
        sql.emit(objects.forget("index", name))


def _exists(index: Index) -> str:
    return f"{sql.regclass(index.name)} IS NOT NULL"


def _valid(index: Index) -> str:
    return (
        "EXISTS (SELECT FROM pg_index "
        f"WHERE indexrelid = {sql.regclass(index.name)} AND indisvalid AND indisready)"
    )


def _is_other(index: Index) -> str:
    actual = "split_part(pg_get_indexdef(i.indexrelid), ' USING btree ', 2)"
    return (
        f"i.indrelid <> {sql.regclass(index.table)} OR i.indisunique <> {str(index.unique).lower()} "
        f"OR {actual} <> {sql.literal(index.definition())}"
    )


def _who_was_in_the_way(error: DBAPIError, index: Index) -> Exception:
    if sqlstate(error) != "55P03":
        return error
    oldest = op.get_bind().scalar(OLDEST_TRANSACTION)
    return MigrationError(
        f"building index {index.name} waited {BUILD_PATIENCE} for an older transaction"
        f"{f' ({oldest})' if oldest else ''}; end it or wait for it, then run the same again: "
        "the half-built index is rebuilt"
    )
