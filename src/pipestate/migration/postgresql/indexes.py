"""Indexes: built concurrently, rebuilt if a build was interrupted or the definition differs; by partition."""

from contextlib import suppress

from alembic import op
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from pipestate.database.drivers import sqlstate
from pipestate.migration import sql
from pipestate.migration.adoption import Index
from pipestate.migration.failure import MigrationError
from pipestate.migration.postgresql import calls
from pipestate.migration.postgresql.session import SESSION_LOCK_TIMEOUT, lock_tables, patiently

BUILD_PATIENCE = "10min"

# CREATE INDEX CONCURRENTLY waits for every transaction that is older than it.
OLDEST_TRANSACTION = text(
    "SELECT format('pid %s (%s), in a transaction since %s: %s', pid, application_name, "
    "xact_start::timestamptz(0), left(query, 200)) FROM pg_catalog.pg_stat_activity "
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
        if index.partitions if sql.is_offline() else sql.is_true(is_partitioned(index.table)):
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
    own = f"SELECT FROM pg_catalog.pg_index WHERE indexrelid = {sql.regclass(index.full_name)}"
    needed = f"{is_partitioned(index.table)} AND NOT EXISTS ({own} AND indisvalid AND indisready)"
    prepare_index(index, needed)
    with sql.autocommit():
        sql.emit(f"SET lock_timeout = '{BUILD_PATIENCE}'")
        build_indexes(index, needed)
        sql.emit(f"SET lock_timeout = '{SESSION_LOCK_TIMEOUT}'")
    lock_tables(index.table, when=needed)
    calls.call("attach_partition_indexes", sql.name(index.table), index.name)


def drop_index(*names: str) -> None:
    with patiently() as patience:
        calls.call("drop_indexes", list(names), **calls.unregistered(), **patience)


def _who_was_in_the_way(error: DBAPIError, index: Index) -> Exception:
    if sqlstate(error) != "55P03":
        return error
    oldest = op.get_bind().scalar(OLDEST_TRANSACTION)
    return MigrationError(
        f"building index {index.name} waited {BUILD_PATIENCE} for an older transaction"
        f"{f' ({oldest})' if oldest else ''}; end it or wait for it, then run the same again: "
        "the half-built index is rebuilt"
    )


# Partitioned tables. PostgreSQL cannot build their indexes concurrently, and adds a foreign key only with
# a scan under its lock. It adopts an index or key that every partition already has. So the partitions come
# first, each while its writers continue, and the table itself last, in milliseconds. A rerun continues
# after an interruption.


def is_partitioned(table: str) -> str:
    """Render the SQL condition that the table is partitioned."""
    return f"EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = {sql.regclass(table)} AND relkind = 'p')"


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


def build_indexes(index: Index, needed: str) -> None:
    """Build the missing index of each partition concurrently; drop half-built ones first."""
    create = "CREATE UNIQUE INDEX" if index.unique else "CREATE INDEX"
    sql.execute_each(
        f"SELECT format('DROP INDEX CONCURRENTLY %s', x.indexrelid::regclass) FROM {_leaves(index)} "
        "JOIN pg_catalog.pg_index x ON x.indexrelid = leaf.own WHERE NOT (x.indisvalid AND x.indisready) "
        f"AND {needed}"
    )
    sql.execute_each(
        f"SELECT format('{create} CONCURRENTLY %I ON %s %s', leaf.index_name, leaf.relid::regclass, "
        f"{sql.literal(index.definition())}) FROM {_leaves(index)} "
        f"WHERE leaf.own IS NULL AND NOT leaf.attached AND {needed}"
    )
    sql.break_off_unless(
        f"NOT ({needed}) OR NOT EXISTS (SELECT FROM {_leaves(index)} WHERE NOT leaf.attached AND "
        "NOT EXISTS (SELECT FROM pg_catalog.pg_index x WHERE x.indexrelid = leaf.own AND x.indisvalid))"
    )


def add_to_partitions(table: str, name: str, definition: str, needed: str) -> None:
    """Add a foreign key to each partition that lacks it, NOT VALID. The caller holds the lock."""
    add = f"ALTER TABLE %s ADD CONSTRAINT {sql.name(name)} {definition} NOT VALID"
    sql.do(
        f"""  IF NOT ({needed}) THEN RETURN; END IF;
  FOR leaf IN SELECT relid::regclass FROM pg_catalog.pg_partition_tree({sql.regclass(table)}) WHERE isleaf
  LOOP
    CONTINUE WHEN EXISTS (
      SELECT FROM pg_catalog.pg_constraint WHERE conrelid = leaf AND conname = {sql.literal(name)});
    EXECUTE format({sql.literal(add)}, leaf);
  END LOOP;""",
        "  leaf regclass;",
        why=f"{name} of each partition of {table}",
    )


def validate_partitions(table: str, name: str, needed: str) -> None:
    """Validate the foreign key in each partition, without blocking writers."""
    unvalidated = (
        f"FROM pg_catalog.pg_partition_tree({sql.regclass(table)}) t JOIN pg_catalog.pg_constraint k ON "
        f"k.conrelid = t.relid WHERE t.isleaf AND k.conname = {sql.literal(name)} AND NOT k.convalidated AND "
        f"{needed}"
    )
    sql.execute_each(
        f"SELECT format('ALTER TABLE %s VALIDATE CONSTRAINT %I', t.relid::regclass, k.conname) {unvalidated}"
    )
    sql.break_off_unless(f"NOT EXISTS (SELECT {unvalidated})")


def _leaves(index: Index) -> str:
    """Render the partitions that hold rows, with the name of their index; `own` is the index of that name."""
    whole = f"c.relname || {sql.literal(f'_{index.name}')}"
    named = f"CASE WHEN octet_length({whole}) <= 63 THEN {whole} ELSE 'part_' || md5({whole}) END"
    attached = (
        f"EXISTS (SELECT FROM pg_catalog.pg_partition_tree({sql.regclass(index.full_name)}) i JOIN "
        "pg_catalog.pg_index x ON x.indexrelid = i.relid WHERE x.indrelid = t.relid)"
    )
    return (
        "(SELECT t.relid, n.index_name, to_regclass(format('%I.%I', s.nspname, n.index_name)) AS own, "
        f"{attached} AS attached FROM pg_catalog.pg_partition_tree({sql.regclass(index.table)}) t "
        "JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace s ON s.oid = "
        f"c.relnamespace CROSS JOIN LATERAL (SELECT {named} AS index_name) n WHERE t.isleaf AND c.relkind = "
        "'r') AS leaf"
    )
