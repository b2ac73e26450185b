"""Tables, views, locks and the ledger on SQLite: adopted or created, dropped only if the chain created them."""

import sqlite3
import time
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from pipestate.ledger.install import additions, statements
from pipestate.ledger.record import WRITTEN_BY_ITSELF
from pipestate.ledger.tables import KEPT, VIEWS, ledger_on, qualified
from pipestate.migration import objects, sql
from pipestate.migration.definitions import DroppedTable, Index, KeyOf, Shape, keys_of_others
from pipestate.migration.failure import MigrationError, warn
from pipestate.migration.sqlite import catalog, dropped_tables
from pipestate.migration.sqlite.dropped_tables import drop_manifest_if_empty


def refuse_wrong_shapes(shapes: Sequence[Shape]) -> None:
    for shape in shapes:
        _refuse(shape)


def refuse_state(
    table: str, *, having: Sequence[str], lacking: Sequence[str], gone: str, message: str
) -> None:
    if not catalog.has_table(table):
        return
    columns = set(catalog.column_names(table))
    if columns >= set(having) and not columns & set(lacking) and not catalog.has_table(gone):
        raise MigrationError(message)


def _refuse(shape: Shape) -> None:
    query = "SELECT type FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')"
    kind = catalog.connection().exec_driver_sql(query, (shape.table,)).scalar()
    if kind is None:
        return
    if kind != "table":
        raise MigrationError(f"{shape.table} exists, but is not a plain table (a view): rename it")
    missing = [column for column in shape.columns if column not in catalog.column_names(shape.table)]
    if missing:
        raise MigrationError(
            f"{shape.table} exists, but without {', '.join(missing)}: it is another table of that name. "
            "Rename it, or point the chain at another database"
        )
    inspector = catalog.inspector()
    unique: list[Sequence[str | None]] = [inspector.get_pk_constraint(shape.table)["constrained_columns"]]
    unique += [constraint["column_names"] for constraint in inspector.get_unique_constraints(shape.table)]
    unique += [index["column_names"] for index in inspector.get_indexes(shape.table) if index["unique"]]
    if [shape.key] not in unique:
        raise MigrationError(
            f"{shape.table} exists, but its {shape.key} is not unique: add a primary key or a unique index "
            "on it, then run the same again"
        )


# Tables and views on SQLite: created if absent, dropped only if ours and empty.


def create_table(table: sa.Table, *indexes: Index) -> None:
    dropped_tables.restore_if_dropped(table.name)
    if catalog.has_table(table.name):
        return
    statement = str(CreateTable(table).compile(dialect=sql.SQLITE)).strip()
    for column in keys_of_others(table):
        source, _, attribute = column.partition(".")
        actual = catalog.column_type(source, attribute) or "INTEGER"
        statement = statement.replace(KeyOf(column).get_col_spec(), actual)
    sql.emit(statement)
    for index in indexes:
        sql.emit(index.statement())
        sql.emit(objects.remember("index", index.name))
    sql.emit(objects.remember("table", table.name))


def drop_table(name: str) -> None:
    if not catalog.is_ours("table", name) or not catalog.has_table(name):
        return
    if catalog.has_rows(name):
        dropped_tables.soft_drop_table(DroppedTable(name))
    else:
        sql.emit(f"DROP TABLE {sql.name(name)}")
    sql.emit(objects.forget("table", name))


def analyze_table(_table: str) -> None:
    """Do nothing: SQLite plans by the schema."""


def create_view(name: str, queries: Mapping[str, str], *, comment: str) -> None:
    if catalog.has_view(name):
        return
    sql.emit(f"CREATE VIEW {sql.name(name)} AS {queries['sqlite']}")
    sql.emit(objects.remember("view", name))


def drop_view(name: str) -> None:
    if catalog.is_ours("view", name):
        sql.emit(f"DROP VIEW IF EXISTS {sql.name(name)}")
    sql.emit(objects.forget("view", name))


def replace_comment(table: str, comment: str, *, revision: str) -> None:
    """Do nothing: SQLite has no comments."""


def restore_comment(table: str, comment: str, *, revision: str) -> None:
    """Do nothing: SQLite has no comments."""


# Work on many rows on SQLite: in one statement, because the migration is the only writer.


def update_in_batches(
    table: str, key: str | Sequence[str], statement: str, *, condition: str = "true", size: int = 0
) -> None:
    if condition == "true" or catalog.scalar(f"SELECT {condition}"):
        sql.emit(statement.replace("{range}", "true").replace("{range s}", "true"))


# Locks on SQLite: the file's own. Tables cannot be locked one by one.


MIGRATION_PATIENCE_S = 600.0


def lock_tables(
    *tables: str,
    mode: str = "ACCESS EXCLUSIVE",
    when: str = "true",
    also: str | None = None,
    timeout_ms: int = 0,
    patience_s: float = 0,
    in_server: bool = False,
) -> None:
    """Do nothing: the migration holds the whole file."""


def hold_file(driver: sqlite3.Connection, *, patience_s: float = MIGRATION_PATIENCE_S) -> None:
    """Hold the file's lock from transaction to transaction: one migration at a time.

    The lock is all or nothing: a waiting session must hold no shared lock. In this mode it would keep that lock, and
    the working session could never write.
    """
    driver.execute("PRAGMA busy_timeout = 0")
    give_up_at = time.monotonic() + patience_s
    while True:
        driver.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            driver.execute("BEGIN EXCLUSIVE")
            driver.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= give_up_at:
                raise
            driver.execute("PRAGMA locking_mode = NORMAL")
            time.sleep(0.2)
        else:
            return


# The ledger in a revision on SQLite. A script cannot read the database: `install_ledger` adds nothing to an older
# ledger there, and nothing is removed.


def install_ledger() -> None:
    _install(only=None)


def install_objects() -> None:
    _install(only=("object",))


def remove_ledger() -> None:
    ledger = ledger_on("sqlite")
    tables = [
        table.name for table in reversed(ledger.tables) if table is not ledger.objects or not objects.kept()
    ]
    if any(_is_worth_keeping(table) for table in tables):
        warn(KEPT)
        return
    for view in (*reversed(VIEWS), "schema_objects", "schema_method"):
        sql.emit(f"DROP VIEW IF EXISTS {qualified(view, 'sqlite')}")
    for table in tables:
        sql.emit(f"DROP TABLE IF EXISTS {table}")


def remove_objects() -> None:
    drop_manifest_if_empty()
    if not catalog.has_table(qualified("run", "sqlite")):  # a remaining ledger keeps its tables
        sql.emit(f"DROP TABLE IF EXISTS {qualified('object', 'sqlite')}")


def _is_worth_keeping(table: str) -> bool:
    """Say whether the table has rows besides the automatic ones of applied revisions."""
    if not catalog.has_table(table) or table == qualified("schema_record", "sqlite"):
        return False
    if table != qualified("run", "sqlite"):
        return catalog.has_rows(table)
    own = sql.literals(WRITTEN_BY_ITSELF)
    return bool(catalog.scalar(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE event NOT IN ({own}))"))


def _install(*, only: Sequence[str] | None) -> None:
    more = [] if sql.is_offline() else additions(catalog.connection())
    for statement in more + statements("sqlite", only=only):
        sql.emit(statement)
