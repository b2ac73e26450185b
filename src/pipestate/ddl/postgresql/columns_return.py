"""Archived columns on their way back: added again, filled in batches, and what hung on them returns.

Each batch marks in the copy what is back, to the byte; the copy goes only when nothing is left unmarked.
"""

from contextlib import nullcontext

from pipestate.ddl import sql
from pipestate.ddl.going import GoingColumns
from pipestate.ddl.postgresql import names
from pipestate.ddl.postgresql.archive import create_archive
from pipestate.ddl.postgresql.batches import run_batches
from pipestate.ddl.postgresql.block import Constants, run_block
from pipestate.ddl.postgresql.locks import lock_tables
from pipestate.ddl.postgresql.names import MANIFEST
from pipestate.ddl.transaction import may_commit


def restore_columns(going: GoingColumns) -> None:
    copied = f"to_regclass({sql.literal(names.copy(going))}) IS NOT NULL"
    there = f"{copied} AND {sql.regclass(MANIFEST)} IS NOT NULL"
    create_archive("", "true")
    lock_tables(going.table, when=there)
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_name": going.table,
        "the_revision": going.revision,
        "the_copy": names.copy(going),
    }
    run_block(
        "return_columns",
        {**constants, "the_changed_at": going.changed_at, "the_derived": going.derived},
        why=f"{going.described} come back, empty at first",
    )
    run_batches(going.table, going.key, quiet=True)
    committing = may_commit()
    with sql.autocommit() if committing else nullcontext():
        _build_indexes(going, there, concurrently=committing)
    lock_tables(going.table, when=there)
    run_block("complete_columns", constants, why=f"{going.described}: what hung on them, and the proof")


def empty_copy(going: GoingColumns) -> None:
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_key": going.key,
        "the_name": going.table,
        "the_revision": going.revision,
        "the_copy": names.copy(going),
    }
    run_block("empty_copy", constants, why=f"{going.described}: an empty copy, where it was purged")


def _build_indexes(going: GoingColumns, there: str, *, concurrently: bool) -> None:
    indexes = (
        f"FROM {MANIFEST}, jsonb_array_elements(definition -> 'indexes') AS i WHERE kind = 'columns' "
        f"AND name = {sql.literal(going.table)} AND revision = {sql.literal(going.revision)} "
        f"AND NOT (i ->> 'of_constraint')::boolean"
    )
    how = "CONCURRENTLY " if concurrently else ""
    # What an interrupted build left has the right name, and would be taken for the index.
    sql.execute_each(
        f"SELECT 'DROP INDEX {how}' || (i ->> 'name') {indexes} AND {there} "
        "AND EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(i ->> 'name') AND NOT indisvalid)"
    )
    sql.execute_each(
        f"SELECT regexp_replace(i ->> 'definition', '^CREATE (UNIQUE )?INDEX ', 'CREATE \\1INDEX {how}') "
        f"{indexes} AND {there} AND to_regclass(i ->> 'name') IS NULL"
    )
    sql.break_off_unless(
        f"NOT ({there}) OR NOT EXISTS (SELECT {indexes} AND NOT EXISTS "
        "(SELECT FROM pg_index WHERE indexrelid = to_regclass(i ->> 'name') AND indisvalid))"
    )
