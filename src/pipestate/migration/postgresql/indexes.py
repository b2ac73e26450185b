"""Indexes: built concurrently, rebuilt if a build was interrupted or the definition differs."""

from contextlib import suppress

from alembic import op
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from pipestate.database.drivers import sqlstate
from pipestate.migration import objects, sql
from pipestate.migration.definitions import Index
from pipestate.migration.failure import MigrationError
from pipestate.migration.postgresql import calls
from pipestate.migration.postgresql.locks import SESSION_LOCK_TIMEOUT, lock_tables, patiently
from pipestate.migration.postgresql.partitions import (
    attach_indexes,
    build_indexes,
    is_partitioned,
    prepare_index,
)

BUILD_PATIENCE = "10min"

# CREATE INDEX CONCURRENTLY waits for every transaction that is older than it.
OLDEST_TRANSACTION = text(
    "SELECT format('pid %s (%s), in a transaction since %s: %s', pid, application_name, "
    "xact_start::timestamptz(0), left(query, 200)) FROM pg_catalog.pg_stat_activity "
    "WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
)


def create_index(index: Index) -> None:
    """Ensure that the index exists, is valid and matches its definition.

    0. On a partitioned table, build it partition by partition; the other steps then find a complete index.
    1. Refuse an index of that name on another table, or one that belongs to a constraint.
    2. Concurrently drop an INVALID index: an interrupted build left it.
    3. Build a missing index concurrently; if the definition differs, build it under a spare name.
    4. Replace the old index by the new one in one short transaction, and report it.
    """
    wanted = (index.name, sql.name(index.table), index.definition())
    options: dict[str, calls.Argument] = {}
    if index.unique:
        options["is_unique"] = True
    if index.needs:
        options["the_needs"] = index.needs
    if index.types:
        options["the_types"] = index.types
    by_partition = index.partitions or not sql.is_offline()
    partition_steps: dict[str, calls.Argument] = {"has_partition_steps": True} if by_partition else {}
    calls.call("prepare_index", *wanted, **options, **partition_steps, **calls.registered())
    if index.partitions if sql.is_offline() else sql.holds(is_partitioned(index.table)):
        _build_by_partition(index)
    with sql.autocommit():
        sql.emit(f"SET lock_timeout = '{BUILD_PATIENCE}'")
        try:
            calls.execute_steps("index_steps", wanted, options)
        except DBAPIError as error:  # half an index would continue to refuse duplicates
            reason = _who_was_in_the_way(error, index)
            with suppress(DBAPIError):
                calls.execute_steps("index_steps", wanted, options, only="DROP")
            raise reason from error
        sql.emit(f"SET lock_timeout = '{SESSION_LOCK_TIMEOUT}'")
    with patiently(index.table) as patience:
        calls.call("finish_index", *wanted, **options, **patience)
    sql.say_warnings()


def _build_by_partition(index: Index) -> None:
    needed = f"{is_partitioned(index.table)} AND NOT {_valid(index)}"
    prepare_index(index, needed)
    with sql.autocommit():
        sql.emit(f"SET lock_timeout = '{BUILD_PATIENCE}'")
        build_indexes(index, needed)
        sql.emit(f"SET lock_timeout = '{SESSION_LOCK_TIMEOUT}'")
    attach_indexes(index, needed)


def drop_index(name: str, *, partitions: bool = False) -> None:
    """Drop one of our indexes without blocking writers; on a partitioned table, under a short lock."""
    ours = f"{sql.regclass(name)} IS NOT NULL AND {calls.is_ours('index', name)}"
    of_partitions = f"{ours} AND EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = {sql.regclass(name)} AND relkind = 'I')"
    if partitions if sql.is_offline() else sql.holds(of_partitions):
        lock_tables(
            when=of_partitions,
            also=f"SELECT indrelid::regclass::text FROM pg_catalog.pg_index WHERE indexrelid = {sql.regclass(name)}",
        )
        calls.run_when(of_partitions, f"DROP INDEX {sql.name(name)}")
    with sql.autocommit():
        sql.execute_when(f"DROP INDEX CONCURRENTLY IF EXISTS {sql.name(name)}", ours)
        sql.emit(objects.forget("index", name))


def _valid(index: Index) -> str:
    return f"EXISTS (SELECT FROM pg_catalog.pg_index WHERE indexrelid = {sql.regclass(index.full_name)} AND indisvalid AND indisready)"


def _who_was_in_the_way(error: DBAPIError, index: Index) -> Exception:
    if sqlstate(error) != "55P03":
        return error
    oldest = op.get_bind().scalar(OLDEST_TRANSACTION)
    return MigrationError(
        f"building index {index.name} waited {BUILD_PATIENCE} for an older transaction"
        f"{f' ({oldest})' if oldest else ''}; end it or wait for it, then run the same again: "
        "the half-built index is rebuilt"
    )
