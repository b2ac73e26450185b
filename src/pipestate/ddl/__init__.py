"""What revisions call: DDL that writers do not notice, adoption of what is there, archives.

Each function looks at the database at the moment of the change, so that a rerun finishes what a kill
interrupted, and `alembic upgrade --sql` writes the same. How it is done on PostgreSQL and on SQLite is in the
packages of these names.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from pipestate.ddl.definitions import Index, KeyOf, Shape, table_of
from pipestate.ddl.engine import engine
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.going import DerivedRows, GoingColumns, GoingTable
from pipestate.ddl.mark import require_mark
from pipestate.ddl.postgresql.batches import BATCH_SIZE
from pipestate.ddl.postgresql.locks import LOCK_PATIENCE_S, LOCK_TIMEOUT_MS

__all__ = [
    "DerivedRows",
    "Index",
    "KeyOf",
    "MigrationError",
    "Shape",
    "abandon_archived_columns",
    "add_checks",
    "add_columns",
    "add_foreign_key",
    "analyze_table",
    "archive_columns",
    "archive_table",
    "comment_column",
    "create_index",
    "create_table",
    "create_view",
    "drop_archive_if_empty",
    "drop_archived_columns",
    "drop_columns",
    "drop_constraint",
    "drop_index",
    "drop_table",
    "drop_view",
    "install_ledger",
    "install_objects",
    "lock_tables",
    "refuse_state",
    "refuse_wrong_shapes",
    "remove_ledger",
    "remove_objects",
    "replace_comment",
    "require_not_null",
    "restore_columns",
    "restore_comment",
    "restore_table",
    "set_default",
    "table_of",
    "update_in_batches",
    "use_timestamptz",
]

# --- Columns ---------------------------------------------------------------------------------------


def add_columns(addition: sa.Table) -> None:
    """Add to a table those of `addition`'s columns that it lacks, in one ALTER under a short lock.

    Defaults must be constants: then PostgreSQL writes no row. A column that is there with a type of
    another family is refused; one that is there without its default gets it.
    """
    engine().add_columns(addition)


def drop_columns(table: str, columns: Sequence[str]) -> None:
    """Drop those of the columns that the chain created, in one ALTER."""
    engine().drop_columns(table, columns)


def use_timestamptz(table: str, columns: Sequence[str], *, indexes: Sequence[str] = ()) -> None:
    """Turn naive timestamps into timestamptz, reading them in `-x naive-timezone` (UTC by default).

    With UTC nothing is rewritten. An index on the column would be rebuilt under the lock, so those
    that are named are dropped first: create them again, concurrently, afterwards. Another zone makes
    PostgreSQL rewrite the table under the lock.
    """
    engine().use_timestamptz(table, columns, indexes=indexes)


def require_not_null(table: str, key: str, repairs: Mapping[str, str]) -> None:
    """Make columns NOT NULL; where one holds NULL, its repair expression first, in batches.

    A column whose repair is itself has none: rows with a NULL there are named, and nothing changes.
    """
    engine().require_not_null(table, key, repairs)


def set_default(table: str, column: str, expression: str) -> None:
    """Give a nullable column of an adopted table a default, so that its writers go on (PostgreSQL)."""
    engine().set_default(table, column, expression)


def comment_column(table: str, column: str, comment: str) -> None:
    """Comment on a column (PostgreSQL)."""
    engine().comment_column(table, column, comment)


# --- Indexes and constraints -----------------------------------------------------------------------


def create_index(index: Index) -> None:
    """Make sure that the index exists, is valid and is what it says; writers go on meanwhile."""
    engine().create_index(index)


def drop_index(name: str, *, partitions: bool = False) -> None:
    """Drop an index that the chain created, without blocking anybody.

    `partitions` puts into scripts for psql what the index of a partitioned table needs; online it is seen.
    """
    engine().drop_index(name, partitions=partitions)


def add_checks(table: str, checks: Mapping[str, str]) -> None:
    """Add named CHECKs. Rows that break one are found first: nothing is changed when there are any."""
    engine().add_checks(table, checks)


def add_foreign_key(
    table: str,
    name: str,
    column: str,
    target: str,
    *,
    on_delete: str,
    target_column: str = "id",
    partitions: bool = False,
) -> None:
    """Add a named foreign key, unless the table has one of its own on that column to that target.

    `partitions` puts into scripts for psql what a partitioned table needs; online it is seen.
    """
    engine().add_foreign_key(
        table,
        name,
        column,
        target,
        on_delete=on_delete,
        target_column=target_column,
        partitions=partitions,
    )


def drop_constraint(table: str, name: str) -> None:
    """Drop a constraint that the chain created."""
    engine().drop_constraint(table, name)


# --- Tables, views, shapes -------------------------------------------------------------------------


def create_table(table: sa.Table, *indexes: Index) -> None:
    """Create the table with its indexes; bring it back where a downgrade put it into the archive.

    A table that is there already is left as it is: adoption is the business of the helpers that
    add columns, constraints and indexes.
    """
    engine().create_table(table, *indexes)


def drop_table(name: str) -> None:
    """Drop a table of ours that is empty; one with rows goes into the archive, and comes back."""
    engine().drop_table(name)


def create_view(name: str, queries: Mapping[str, str], *, comment: str) -> None:
    """Create a view; `queries` has its query for `postgresql` and for `sqlite`."""
    engine().create_view(name, queries, comment=comment)


def drop_view(name: str) -> None:
    """Drop a view that the chain created."""
    engine().drop_view(name)


def analyze_table(table: str) -> None:
    """Tell the planner what is in new columns and indexes; without that it expects most rows in any of them."""
    engine().analyze_table(table)


def replace_comment(table: str, comment: str, *, revision: str) -> None:
    """Comment on a table, and keep what it said before (PostgreSQL)."""
    engine().replace_comment(table, comment, revision=revision)


def restore_comment(table: str, comment: str, *, revision: str) -> None:
    """Give a table its former comment back, unless it says something else than `comment` by now."""
    engine().restore_comment(table, comment, revision=revision)


def refuse_wrong_shapes(shapes: Sequence[Shape]) -> None:
    """Refuse, before the first change, a table of the right name that is another one."""
    engine().refuse_wrong_shapes(shapes)


def refuse_state(
    table: str, *, having: Sequence[str], lacking: Sequence[str], gone: str, message: str
) -> None:
    """Refuse a database whose table has all of these columns and none of those, and where `gone` is gone."""
    engine().refuse_state(table, having=having, lacking=lacking, gone=gone, message=message)


# --- Locks and long work ---------------------------------------------------------------------------


def lock_tables(
    *tables: str,
    mode: str = "ACCESS EXCLUSIVE",
    when: str = "true",
    also: str | None = None,
    timeout_ms: int = LOCK_TIMEOUT_MS,
    patience_s: float = LOCK_PATIENCE_S,
) -> None:
    """Lock the tables that exist, until the end of the transaction; call it first in one.

    `when` is an SQL condition: without need there is no lock. `also` is a query for more tables. The request
    waits briefly, lets those behind it pass and asks again; when patience ends it says who is in the way.
    """
    engine().lock_tables(
        *tables, mode=mode, when=when, also=also, timeout_ms=timeout_ms, patience_s=patience_s
    )


def update_in_batches(
    table: str, key: str | Sequence[str], statement: str, *, condition: str = "true", size: int = BATCH_SIZE
) -> None:
    """Run `statement` once for each range of keys, each in a transaction of its own: it commits as it goes.

    In it, `{range}` stands for the condition that selects the batch's keys (`{range s}`: of the alias
    `s`, where the statement reads the table a second time). It must stand being run again: after a kill the
    ranges start anew. `condition` says whether there is anything to do.
    """
    engine().update_in_batches(table, key, statement, condition=condition, size=size)


# --- The archive -----------------------------------------------------------------------------------


def archive_table(table: str) -> None:
    """Move a table into the archive, where it exists.

    Its outgoing foreign keys are dropped and written down: an archived one would still hold back
    deletes. What points at the table, or reads it, is refused: it would follow into the archive.
    """
    require_mark(f"archive_table({table!r})", table)
    engine().archive_table(GoingTable(table))


def restore_table(table: str) -> None:
    """Bring a table back, with its foreign keys; refuse where its archive is gone.

    A foreign key that rows break meanwhile, because their parents are gone, comes back NOT VALID, with a warning:
    the rows are kept.
    """
    going = GoingTable(table)
    engine().require_archived(going)
    engine().restore_table(going)
    engine().forget_archived(going)


def archive_columns(
    table: str,
    columns: Sequence[str],
    *,
    key: Sequence[str] = (),
    changed_at: str | None = None,
    revision: str = "",
) -> None:
    """Copy the columns' values aside, in batches, and keep the copy true until the columns go.

    Run again, it goes on where it stopped. Rows are found again by `key`, their primary key unless given. Where
    `changed_at` names a column, the copy keeps it too: a row in which it is another one later has changed since.
    `revision` keeps the copy apart from those of other revisions. Call it in a gate's `prepare`; inside the body,
    or where the transaction is not Alembic's own, it copies in one statement, under the lock.
    """
    going = GoingColumns(table, tuple(columns), tuple(key), {}, changed_at, revision)
    engine().archive_columns(going)


def drop_archived_columns(table: str, columns: Sequence[str], *, revision: str = "") -> None:
    """Drop columns that were copied aside, and write down what hung on them. The caller holds the lock."""
    require_mark(f"drop_archived_columns({table!r}, ...)", table)
    engine().drop_archived_columns(GoingColumns(table, tuple(columns), revision=revision))


def abandon_archived_columns(table: str, columns: Sequence[str], *, revision: str = "") -> None:
    """Take back what an archiving that never came to its end has left: the triggers and the copy."""
    engine().abandon_archived_columns(GoingColumns(table, tuple(columns), revision=revision))


def restore_columns(
    table: str,
    columns: Sequence[str],
    *,
    key: Sequence[str] = (),
    changed_at: str | None = None,
    derived: Mapping[str, str] | None = None,
    revision: str = "",
) -> None:
    """Bring archived columns back with every value; refuse where their archive is gone.

    Rows that changed since, or that are new, get what `derived` says: expressions over a row `s` and its archived
    values `a`, which are texts. Where that is NULL, the archived value or the default stays.
    """
    going = GoingColumns(table, tuple(columns), tuple(key), derived or {}, changed_at, revision)
    engine().require_archived(going)
    engine().restore_columns(going)
    engine().forget_archived(going)


def drop_archive_if_empty() -> None:
    """Leave no empty archive behind at the end of `downgrade base`."""
    engine().drop_archive_if_empty()


# --- The ledger ------------------------------------------------------------------------------------


def install_ledger() -> None:
    """Create the ledger where it is missing, add what an older one lacks; repeated, it does nothing."""
    engine().install_ledger()


def install_objects() -> None:
    """Create the part that a chain with a registry needs from its first revision on."""
    engine().install_objects()


def remove_ledger() -> None:
    """Drop a ledger that holds no row; leave one that does, and say so.

    A chain with a registry keeps that until `remove_objects`.
    """
    engine().remove_ledger()


def remove_objects() -> None:
    """Drop the registry, and the schema where nothing else is in it."""
    engine().remove_objects()
