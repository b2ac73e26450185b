"""Indexes: built concurrently, rebuilt where a build was interrupted or the definition is another one."""

import re
from contextlib import suppress
from dataclasses import replace

from alembic import op
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from pipestate.ddl import objects, sql
from pipestate.ddl.definitions import Index
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.postgresql.locks import SESSION_LOCK_TIMEOUT, lock_tables
from pipestate.ddl.postgresql.names import fitted
from pipestate.ddl.postgresql.partitions import (
    attach_indexes,
    build_indexes,
    is_partitioned,
    no_steps_for_partitions,
    prepare_index,
)
from pipestate.drivers import sqlstate

BUILD_PATIENCE = "10min"
CAST = r"::(character varying|[\w.]+)|[()\s]"

# CREATE INDEX CONCURRENTLY waits for every transaction that is older than it.
OLDEST_TRANSACTION = text(
    "SELECT format('pid %s (%s), in a transaction since %s: %s', pid, application_name, "
    "xact_start::timestamptz(0), left(query, 200)) FROM pg_stat_activity "
    "WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 1"
)


def create_index(index: Index) -> None:
    """Make sure that the index exists, is valid and is what it says.

    0. On a partitioned table, build it partition by partition; what follows then finds nothing to do.
    1. An index of that name on another table, or one that belongs to a constraint: refuse.
    2. An INVALID one is what an interrupted build left: drop it concurrently.
    3. Build what is missing, concurrently; in place of another definition under a spare name.
    4. That one takes the place of the old one in one short transaction, and it is said.
    """
    _refuse(index)
    missing = f"NOT {_exists(index)}{f' AND {_is_wanted(index)}' if index.needs else ''}"
    sql.do_when(missing, objects.remember("index", index.name))
    if index.partitions if sql.is_offline() else sql.holds(is_partitioned(index.table)):
        _build_by_partition(index)
    spare = _spare(index)
    with sql.autocommit():
        sql.emit(f"SET lock_timeout = '{BUILD_PATIENCE}'")
        _drop_when(index.name, f"{_exists(index)} AND NOT {_valid(index)}")
        _drop_when(spare.name, f"{_exists(spare)} AND NOT ({_valid(spare)} AND {_is_other(index)})")
        _build_when(index, missing)
        _build_when(spare, f"{_is_other(index)} AND NOT {_exists(spare)}")
        sql.emit(f"SET lock_timeout = '{SESSION_LOCK_TIMEOUT}'")
        done = f"{_valid(index)} AND (NOT {_is_other(index)} OR {_valid(spare)})"
        sql.break_off_unless(f"{done} OR NOT {_is_wanted(index)}" if index.needs else done)
    _swap(index, spare)


def _build_by_partition(index: Index) -> None:
    needed = f"{is_partitioned(index.table)} AND NOT {_valid(index)}"
    prepare_index(index, needed)
    with sql.autocommit():
        sql.emit(f"SET lock_timeout = '{BUILD_PATIENCE}'")
        build_indexes(index, needed)
        sql.emit(f"SET lock_timeout = '{SESSION_LOCK_TIMEOUT}'")
    attach_indexes(index, needed)


def drop_index(name: str, *, partitions: bool = False) -> None:
    """Drop an index of ours without blocking anybody; that of a partitioned table under a short lock."""
    ours = f"{sql.regclass(name)} IS NOT NULL AND {objects.is_ours('index', name)}"
    of_partitions = (
        f"{ours} AND EXISTS (SELECT FROM pg_class WHERE oid = {sql.regclass(name)} AND relkind = 'I')"
    )
    if partitions if sql.is_offline() else sql.holds(of_partitions):
        lock_tables(
            when=of_partitions,
            also=f"SELECT indrelid::regclass::text FROM pg_index WHERE indexrelid = {sql.regclass(name)}",
        )
        sql.do_when(of_partitions, f"DROP INDEX {sql.name(name)}")
    with sql.autocommit():
        sql.execute_when(f"DROP INDEX CONCURRENTLY IF EXISTS {sql.name(name)}", ours)
        sql.emit(objects.forget("index", name))


def _spare(index: Index) -> Index:
    """The same index, under the name that it has until it takes the other one's place."""
    return replace(index, name=fitted(f"pipestate_new_{index.name}"))


def _oid(index: Index) -> str:
    return sql.regclass(index.full_name)


def _exists(index: Index) -> str:
    return f"{_oid(index)} IS NOT NULL"


def _valid(index: Index) -> str:
    return f"EXISTS (SELECT FROM pg_index WHERE indexrelid = {_oid(index)} AND indisvalid AND indisready)"


def _is_wanted(index: Index) -> str:
    """Has the table what the index needs?"""
    types = ", ".join(f"{sql.literal(each)}::regtype" for each in index.types)
    return (
        f"(SELECT count(*) FROM pg_attribute WHERE attrelid = {sql.regclass(index.table)} "
        f"AND attname IN ({sql.literals(index.needs)}) AND NOT attisdropped"
        f"{f' AND atttypid IN ({types})' if types else ''}) = {len(index.needs)}"
    )


def _is_other(index: Index) -> str:
    """Is there an index of that name with other columns, predicate or uniqueness?"""
    actual = "split_part(pg_get_indexdef(indexrelid), ' USING btree ', 2)"
    wanted = index.definition()
    if "'" in wanted:  # casts and parentheses depend on the type of an adopted column
        actual = f"regexp_replace({actual}, {sql.literal(CAST)}, '', 'g')"
        wanted = re.sub(CAST, "", wanted)
    return (
        f"EXISTS (SELECT FROM pg_index WHERE indexrelid = {_oid(index)} AND "
        f"(indisunique <> {str(index.unique).lower()} OR {actual} <> {sql.literal(wanted)}))"
    )


def _refuse(index: Index) -> None:
    actual = f"coalesce(pg_get_indexdef({_oid(index)}), 'no index')"
    sql.refuse_when(
        f"{_exists(index)} AND NOT EXISTS (SELECT FROM pg_index "
        f"WHERE indexrelid = {_oid(index)} AND indrelid = {sql.regclass(index.table)})",
        f"{index.name} exists, but is no index of {index.table}: {{actual}}; wanted: {index.statement()}. "
        "Drop or rename it, then run the same again",
        actual=actual,
    )
    if sql.is_offline() and not index.partitions:
        sql.refuse_when(is_partitioned(index.table), no_steps_for_partitions(index.table))
    else:
        sql.refuse_when(
            f"{_is_other(index)} AND {is_partitioned(index.table)}",
            f"index {index.name} exists with another definition: {{actual}}; wanted: {index.statement()}. "
            f"{index.table} is partitioned, so it is not replaced: drop it, then run the same again",
            actual=actual,
        )
    sql.refuse_when(
        f"{_is_other(index)} AND EXISTS (SELECT FROM pg_constraint WHERE conindid = {_oid(index)})",
        f"index {index.name} exists with another definition: {{actual}}; wanted: {index.statement()}. It belongs to a "
        "constraint, so it is not replaced: drop or rename the constraint, then run the same again",
        actual=actual,
    )


def _drop_when(name: str, condition: str) -> None:
    sql.execute_when(f"DROP INDEX CONCURRENTLY {sql.name(name)}", condition)


def _build_when(index: Index, condition: str) -> None:
    """Build it; where that fails, do not leave half an index that would go on refusing duplicates."""
    try:
        sql.execute_when(index.statement(concurrently=True), condition)
    except DBAPIError as error:
        reason = _who_was_in_the_way(error, index)
        with suppress(DBAPIError):
            _drop_when(index.name, f"{_exists(index)} AND NOT {_valid(index)}")
        raise reason from error


def _swap(index: Index, spare: Index) -> None:
    ready = f"{_is_other(index)} AND {_valid(spare)}"
    if not sql.is_offline() and not sql.holds(ready):
        return
    lock_tables(index.table, when=ready)
    sql.do(
        f"""  IF NOT ({ready}) THEN RETURN; END IF;
  said := format({sql.literal(f"index {index.name} was another one (%s): rebuilt as {index.statement()}")},
    pg_get_indexdef({_oid(index)}));
  EXECUTE format('DROP INDEX %s', {_oid(index)});
  EXECUTE format('ALTER INDEX %s RENAME TO %I', {_oid(spare)}, {sql.literal(index.name)});
  RAISE NOTICE '%', said;
  PERFORM set_config('pipestate.said', said, false);""",
        "  said text;",
        why=f"{index.name} takes the place of another index of that name",
    )
    sql.say_warnings()


def _who_was_in_the_way(error: DBAPIError, index: Index) -> Exception:
    if sqlstate(error) != "55P03":
        return error
    oldest = op.get_bind().scalar(OLDEST_TRANSACTION)
    return MigrationError(
        f"building index {index.name} waited {BUILD_PATIENCE} for an older transaction"
        f"{f' ({oldest})' if oldest else ''}; end it or wait for it, then run the same again: "
        "the half-built index is rebuilt"
    )
