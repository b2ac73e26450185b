"""Indexes: built concurrently, rebuilt if a build was interrupted or the definition differs; by partition."""

from contextlib import suppress

from alembic import op
from sqlalchemy.exc import DBAPIError

from pipestate.database.connections import run_own
from pipestate.database.drivers import sqlstate
from pipestate.migration import sql
from pipestate.migration.adoption import Index
from pipestate.migration.failure import MigrationError
from pipestate.migration.postgresql import calls
from pipestate.migration.postgresql.session import SESSION_LOCK_TIMEOUT, lock_tables, patiently

BUILD_PATIENCE = "10min"

# CREATE INDEX CONCURRENTLY waits for every transaction that is older than it.
OLDEST_TRANSACTION = (
    "SELECT format('pid %s (%s), in a transaction since %s: %s', pid, application_name, "
    "xact_start::timestamptz(0), left(query, 200)) FROM pg_stat_activity "
    "WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
)


def create_index(*indexes: Index) -> None:
    """Ensure that the indexes exist, are valid and match their definitions.

    0. On a partitioned table, build them partition by partition; the other steps then find a complete index.
    1. Refuse an index of that name on another table, or one that belongs to a constraint.
    2. Concurrently drop an INVALID index: an interrupted build left it.
    3. Build a missing index concurrently; if the definition differs, build it under a spare name.
    4. Replace the old index by the new one in one short transaction, and report it.
    """
    for index in indexes:
        by_partition: dict[str, calls.Argument] = {}
        if index.partitions or not sql.is_offline():
            by_partition["has_partition_steps"] = True
        calls.call("prepare_index", *_wanted(index), **_options(index), **by_partition, **calls.registered())
    for index in indexes:
        if index.partitions if sql.is_offline() else sql.is_true(calls.at_home(is_partitioned(index.table))):
            _build_by_partition(index)
    with sql.autocommit():
        sql.emit(f"SET lock_timeout = '{BUILD_PATIENCE}'")
        for index in indexes:
            _build(index)
        sql.emit(f"SET lock_timeout = '{SESSION_LOCK_TIMEOUT}'")
    for index in indexes:
        with patiently(index.table) as patience:
            calls.call("finish_index", *_wanted(index), **_options(index), **patience)
    sql.say_warnings()


def _wanted(index: Index) -> tuple[str, str, str]:
    return index.name, sql.name(index.table), index.definition()


def _options(index: Index) -> dict[str, calls.Argument]:
    options: dict[str, calls.Argument] = {
        "is_unique": index.unique,
        "the_needs": index.needs,
        "the_types": index.types,
    }
    return {name: value for name, value in options.items() if value}


def _build(index: Index) -> None:
    try:
        calls.execute_steps("index_steps", _wanted(index), _options(index))
    except DBAPIError as error:  # half an index would continue to refuse duplicates
        reason = _who_was_in_the_way(error, index)
        with suppress(DBAPIError):
            calls.execute_steps("index_steps", _wanted(index), _options(index), only="DROP")
        raise reason from error


def _build_by_partition(index: Index) -> None:
    needed = calls.function("is_partitioned", sql.name(index.table), index.name)
    prepare_index(index, needed)
    with sql.autocommit():
        sql.emit(f"SET lock_timeout = '{BUILD_PATIENCE}'")
        build_indexes(index)
        sql.emit(f"SET lock_timeout = '{SESSION_LOCK_TIMEOUT}'")
    lock_tables(index.table, when=needed)
    calls.call("attach_partition_indexes", sql.name(index.table), index.name)


def drop_index(*names: str) -> None:
    with patiently() as patience:
        calls.call("drop_indexes", list(names), **calls.unregistered(), **patience)


def _who_was_in_the_way(error: DBAPIError, index: Index) -> Exception:
    if sqlstate(error) != "55P03":
        return error
    oldest = run_own(op.get_bind(), OLDEST_TRANSACTION)
    return MigrationError(
        f"building index {index.name} waited {BUILD_PATIENCE} for an older transaction"
        f"{f' ({oldest[0][0]})' if oldest else ''}; end it or wait for it, then run the same again: "
        "the half-built index is rebuilt"
    )


# Partitioned tables. PostgreSQL cannot build their indexes concurrently, and adds a foreign key only with
# a scan under its lock. It adopts an index or key that every partition already has. So the partitions come
# first, each while its writers continue, and the table itself last, in milliseconds. A rerun continues
# after an interruption.


def is_partitioned(table: str) -> str:
    """Render the SQL condition that the table is partitioned."""
    return calls.function("is_partitioned", sql.name(table))


def no_steps_for_partitions(table: str) -> str:
    """Explain why a script without partition steps stops at a partitioned table."""
    return (
        f"{table} is partitioned, and this script has no steps for that: run the revision online, "
        "or write the script with partitions=True"
    )


def prepare_index(index: Index, needed: str) -> None:
    """Create the index of the table itself, without those of its partitions, under a short lock."""
    lock_tables(index.table, mode="SHARE", when=needed)
    create = "CREATE UNIQUE INDEX" if index.unique else "CREATE INDEX"
    calls.call("prepare_partitioned_index", sql.name(index.table), index.name, create, index.definition())


def build_indexes(index: Index) -> None:
    """Build the missing index of each partition concurrently; drop half-built ones first."""
    create = "CREATE UNIQUE INDEX" if index.unique else "CREATE INDEX"
    wanted = (sql.name(index.table), index.name, create, index.definition())
    calls.execute_steps("partition_index_steps", wanted, {})
    left = calls.function("partition_index_steps", *wanted)
    sql.break_off_unless(calls.at_home(f"NOT EXISTS (SELECT FROM {left})"))


def add_to_partitions(table: str, name: str, definition: str, needed: str) -> None:
    """Add a foreign key to each partition that lacks it, NOT VALID. The caller holds the lock."""
    calls.call("add_to_partitions", sql.name(table), name, definition, needed)


def validate_partitions(table: str, name: str, needed: str) -> None:
    """Validate the foreign key in each partition, without blocking writers."""
    wanted = (sql.name(table), name, needed)
    calls.execute_steps("partition_key_steps", wanted, {})
    left = calls.function("partition_key_steps", *wanted)
    sql.break_off_unless(calls.at_home(f"NOT EXISTS (SELECT FROM {left})"))
