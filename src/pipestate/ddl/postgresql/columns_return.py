"""Archived columns on their way back: added again, filled in batches, and what hung on them returns.

1. Under a short lock, the columns, empty.
2. In batches and without a lock, the values. Each batch marks in the copy what is back, to the byte; when all are
   through, nothing may be left unmarked.
3. Without a lock, the indexes, those of unique constraints included.
4. Under a short lock, where there are any, CHECKs, foreign keys and NOT NULL, none of them VALID yet.
5. Without a lock, these are validated.
6. Under a short lock, the rest, and the copy goes.

After a kill the same begins anew, and finds what is done. Where the transaction is not Alembic's own, all of it
happens under the first lock.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pipestate.ddl import sql
from pipestate.ddl.contract_parts import GoingColumns
from pipestate.ddl.force import force_statement
from pipestate.ddl.postgresql import names
from pipestate.ddl.postgresql.archive import create_archive
from pipestate.ddl.postgresql.batches import run_batches
from pipestate.ddl.postgresql.block import Constants, run_block
from pipestate.ddl.postgresql.locks import lock_tables
from pipestate.ddl.postgresql.names import MANIFEST
from pipestate.ddl.transaction import may_commit

# A writer may want a row of the batch that is being filled, and then waits for its end.
RETURNED_AT_A_TIME = 100


def restore_columns(going: GoingColumns) -> None:
    copied = f"to_regclass({sql.literal(names.copy(going))}) IS NOT NULL"
    there = f"{copied} AND {sql.regclass(MANIFEST)} IS NOT NULL"
    committing = may_commit()  # asked once: it does not say so inside of an autocommit block
    create_archive("", "true")
    lock_tables(going.table, when=there)
    constants = _constants(going)
    run_block(
        "return_columns",
        {**constants, "the_changed_at": going.changed_at, "the_derived": going.derived},
        why=f"{going.described} come back, empty at first",
    )
    run_batches(going.table, going.key, quiet=True, size=RETURNED_AT_A_TIME)
    with _unlocked():
        run_block(
            "settle_columns",
            {
                **constants,
                "the_changed_at": going.changed_at,
                "force_record": force_statement(f"downgrade that keeps what is in {going.described}"),
            },
            why=f"{going.described}: the proof that every value is back",
        )
        _build_indexes(going, there, concurrently=committing)
    _hang(going, there, constants)
    lock_tables(going.table, when=there)
    run_block(
        "complete_columns",
        {**constants, "prepared": committing},
        why=f"{going.described}: what is left to hang on them, and the end of the copy",
    )


def _constants(going: GoingColumns) -> Constants:
    return {
        "the_table": sql.name(going.table),
        "the_name": going.table,
        "the_revision": going.revision,
        "the_copy": names.copy(going),
    }


@contextmanager
def _unlocked() -> Iterator[None]:
    """Let go of the lock, and commit each statement by itself; where that is not allowed, go on under the lock."""
    if not may_commit():
        yield
        return
    with sql.autocommit():
        yield


def _hang(going: GoingColumns, there: str, constants: Constants) -> None:
    """Add what is checked against every row NOT VALID, and validate it without the lock."""
    anything = (
        f"EXISTS (SELECT FROM {MANIFEST}, "
        "jsonb_array_elements((definition -> 'constraints') || (definition -> 'columns')) AS each "
        f"WHERE kind = 'columns' AND name = {sql.literal(going.table)} "
        f"AND revision = {sql.literal(going.revision)} AND NOT definition ? 'filled' "
        "AND (each ->> 'kind' IN ('c', 'f', 'n') OR each @> '{\"not_null\": true}' OR each ->> 'domain' <> ''))"
    )
    lock_tables(going.table, when=f"{there} AND {anything}")
    run_block("hang_columns", constants, why=f"{going.described}: what hung on them, not validated yet")
    with _unlocked():
        run_block("validate_columns", constants, why=f"{going.described}: validate it, while writers go on")
        validated = sql.literal(f"{going.table}/{going.revision}")
        sql.break_off_unless(f"current_setting('pipestate.validated', true) = {validated}")


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
    wanted = "i ->> 'constraint' IS NULL"
    if concurrently:
        duplicated = "current_setting('pipestate.duplicated')::text[]"
        wanted += f" OR (i ->> 'unique')::boolean AND i ->> 'constraint' <> ALL ({duplicated})"
    indexes = (
        f"FROM {MANIFEST}, jsonb_array_elements(definition -> 'indexes') AS i WHERE kind = 'columns' "
        f"AND name = {sql.literal(going.table)} AND revision = {sql.literal(going.revision)} "
        f"AND ({wanted})"
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
