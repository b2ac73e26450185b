"""Indexes and foreign keys of partitioned tables: built partition by partition, then attached.

PostgreSQL cannot build an index of a partitioned table concurrently, and adds a foreign key to one only with a scan
under its lock. It adopts an index or key that every partition already has. So the partitions come first, each while
its writers continue, and the table itself last, in milliseconds. A rerun continues after an interruption.
"""

from pipestate.migration import sql
from pipestate.migration.definitions import Index
from pipestate.migration.postgresql import calls
from pipestate.migration.postgresql.locks import lock_tables


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
        f"JOIN pg_catalog.pg_index x ON x.indexrelid = leaf.own WHERE NOT (x.indisvalid AND x.indisready) AND {needed}"
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


def attach_indexes(index: Index, needed: str) -> None:
    """Attach the partitions' indexes to that of the table, under a short lock on all of them."""
    lock_tables(index.table, when=needed)
    calls.call("attach_partition_indexes", sql.name(index.table), index.name)


def add_to_partitions(table: str, name: str, definition: str, needed: str) -> None:
    """Add a foreign key to each partition that lacks it, NOT VALID. The caller holds the lock."""
    sql.do(
        f"""  IF NOT ({needed}) THEN RETURN; END IF;
  FOR leaf IN SELECT relid::regclass FROM pg_catalog.pg_partition_tree({sql.regclass(table)}) WHERE isleaf LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conrelid = leaf AND conname = {sql.literal(name)});
    EXECUTE format({sql.literal(f"ALTER TABLE %s ADD CONSTRAINT {sql.name(name)} {definition} NOT VALID")}, leaf);
  END LOOP;""",
        "  leaf regclass;",
        why=f"{name} of each partition of {table}",
    )


def validate_partitions(table: str, name: str, needed: str) -> None:
    """Validate the foreign key in each partition, without blocking writers."""
    unvalidated = (
        f"FROM pg_catalog.pg_partition_tree({sql.regclass(table)}) t JOIN pg_catalog.pg_constraint k ON k.conrelid = t.relid "
        f"WHERE t.isleaf AND k.conname = {sql.literal(name)} AND NOT k.convalidated AND {needed}"
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
        f"EXISTS (SELECT FROM pg_catalog.pg_partition_tree({sql.regclass(index.full_name)}) i JOIN pg_catalog.pg_index x "
        "ON x.indexrelid = i.relid WHERE x.indrelid = t.relid)"
    )
    return (
        "(SELECT t.relid, n.index_name, to_regclass(format('%I.%I', s.nspname, n.index_name)) AS own, "
        f"{attached} AS attached FROM pg_catalog.pg_partition_tree({sql.regclass(index.table)}) t "
        "JOIN pg_catalog.pg_class c ON c.oid = t.relid JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace "
        f"CROSS JOIN LATERAL (SELECT {named} AS index_name) n WHERE t.isleaf AND c.relkind = 'r') AS leaf"
    )
