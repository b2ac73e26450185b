"""Tables, views, columns, constraints and indexes on SQLite: created, adopted, dropped only if the migrations
created them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn, CreateTable

from pipestate.ledger.install import additions, statements
from pipestate.ledger.record import WRITTEN_BY_ITSELF
from pipestate.ledger.tables import KEPT, VIEWS, ledger_on, qualified
from pipestate.migration import sql
from pipestate.migration.adoption import Index, KeyOf, Shape, keys_of_others
from pipestate.migration.contract import DroppedColumns, DroppedTable
from pipestate.migration.failure import MigrationError, warn
from pipestate.migration.run import current_run
from pipestate.migration.sqlite import catalog, dropped_tables
from pipestate.migration.sqlite.contract import restore_columns, soft_drop_columns
from pipestate.migration.sqlite.dropped_tables import drop_manifest_if_empty
from pipestate.migration.sqlite.rebuild import rebuilt, refuse_rows


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
            f"{shape.table} exists, but without {', '.join(missing)}: this is a different table of the same name. "
            "Rename it, or point the migrations at another database"
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
        sql.emit(sql.remember("index", index.name))
    sql.emit(sql.remember("table", table.name))


def drop_table(name: str) -> None:
    if not catalog.is_ours("table", name) or not catalog.has_table(name):
        return
    if catalog.has_rows(name):
        dropped_tables.soft_drop_table(DroppedTable(name))
    else:
        sql.emit(f"DROP TABLE {sql.name(name)}")
    sql.emit(sql.forget("table", name))


def analyze_table(*_tables: str) -> None:
    """Do nothing: SQLite plans by the schema."""


def create_view(name: str, queries: Mapping[str, str], *, comment: str) -> None:
    if catalog.has_view(name):
        return
    sql.emit(f"CREATE VIEW {sql.name(name)} AS {queries['sqlite']}")
    sql.emit(sql.remember("view", name))


def drop_view(name: str) -> None:
    if catalog.is_ours("view", name):
        sql.emit(f"DROP VIEW IF EXISTS {sql.name(name)}")
    sql.emit(sql.forget("view", name))


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


# The ledger in a revision on SQLite. A script cannot read the database: `install_ledger` adds nothing to an
# older ledger there, and nothing is removed.


def install_ledger() -> None:
    _install(only=None)


def install_objects() -> None:
    _install(only=("object",))


def remove_ledger() -> None:
    ledger = ledger_on("sqlite")
    tables = [
        table.name
        for table in reversed(ledger.tables)
        if table is not ledger.objects or not sql.keeps_registry()
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


# Columns on SQLite: added as they are, or by a rebuild if ADD COLUMN cannot.


def add_columns(addition: sa.Table) -> None:
    """Add columns by plain ADD COLUMN; a non-constant default needs the table rebuilt."""
    _restore_hidden(addition)
    known = catalog.column_names(addition.name)
    for column in addition.columns:
        if column.name in known:
            continue
        if _default(column) == "CURRENT_TIMESTAMP":
            with rebuilt(addition.name) as batch:
                batch.add_column(
                    sa.Column(
                        column.name,
                        column.type,
                        server_default=sa.text("CURRENT_TIMESTAMP"),
                        nullable=column.nullable,
                    )
                )
        else:
            definition = CreateColumn(column).compile(dialect=sql.SQLITE)
            sql.emit(f"ALTER TABLE {sql.name(addition.name)} ADD COLUMN {definition}")
        sql.emit(sql.remember("column", f"{addition.name}.{column.name}"))
    adopted = [column for column in addition.columns if column.name in known]
    if adopted:
        _fix_defaults(addition.name, adopted)


def drop_columns(table: str, columns: Sequence[str]) -> None:
    ours = [column for column in columns if catalog.is_ours("column", f"{table}.{column}")]
    there = [column for column in ours if column in catalog.column_names(table)]
    if there and sql.keeps_registry() and catalog.has_rows(table):
        soft_drop_columns(DroppedColumns(table, tuple(there), revision=current_run().revision))
    elif there:
        with rebuilt(table, without=there) as batch:
            for column in there:
                batch.drop_column(column)
    for column in ours:
        sql.emit(sql.forget("column", f"{table}.{column}"))


def _restore_hidden(addition: sa.Table) -> None:
    """Restore the columns that a downgrade of this revision has hidden."""
    columns = tuple(column.name for column in addition.columns)
    hidden = DroppedColumns(addition.name, columns, revision=current_run().revision)
    if sql.keeps_registry() and (kept := dropped_tables.definition(hidden).get("columns")):
        restore_columns(hidden)
        for column in kept:
            sql.emit(sql.remember("column", f"{addition.name}.{column['name']}"))


def require_not_null(table: str, key: str, repairs: Mapping[str, str]) -> None:
    nullable = [
        c["name"] for c in catalog.inspector().get_columns(table) if c["name"] in repairs and c["nullable"]
    ]
    if not nullable:
        return
    hopeless = " OR ".join(f"{sql.name(column)} IS NULL" for column in nullable if repairs[column] == column)
    if hopeless:
        refuse_rows(table, hopeless, f"have no value ({hopeless})")
    for column in nullable:
        sql.emit(
            f"UPDATE {sql.name(table)} SET {sql.name(column)} = {repairs[column]} "
            f"WHERE {sql.name(column)} IS NULL"
        )
    with rebuilt(table) as batch:
        for column in nullable:
            batch.alter_column(column, nullable=False)


def use_timestamptz(table: str, columns: Sequence[str], *, indexes: Sequence[str] = ()) -> None:
    """Do nothing: SQLite has no types for times."""


def set_default(table: str, column: str, expression: str) -> None:
    """Do nothing: a non-constant default needs a rebuild, and writers here are few."""


def comment_column(table: str, column: str, comment: str) -> None:
    """Do nothing: SQLite has no comments."""


def _fix_defaults(table: str, columns: Sequence[sa.Column[Any]]) -> None:
    """Fix adopted booleans that hold the text 'FALSE', and columns without their default."""
    for column in columns:
        if isinstance(column.type, sa.Boolean):
            name = sql.name(column.name)
            sql.emit(f"UPDATE {sql.name(table)} SET {name} = 0 WHERE upper({name}) IN ('FALSE', 'F')")
            sql.emit(f"UPDATE {sql.name(table)} SET {name} = 1 WHERE upper({name}) IN ('TRUE', 'T')")
    actual = {column["name"]: column["default"] for column in catalog.inspector().get_columns(table)}
    wrong = [column for column in columns if _default(column) != _unquoted(actual[column.name])]
    if wrong:
        with rebuilt(table) as batch:
            for column in wrong:
                batch.alter_column(
                    column.name, type_=column.type, server_default=sa.text(str(_default(column)))
                )


def _default(column: sa.Column[Any]) -> str | None:
    definition = str(CreateColumn(column).compile(dialect=sql.SQLITE))
    found = re.search(r" DEFAULT (.+?)( NOT NULL)?$", definition)
    return _unquoted(found[1]) if found else None


def _unquoted(default: str | None) -> str | None:
    return default.strip("()'\"") if default is not None else None


# Constraints on SQLite: added by a rebuild; violating rows are refused first.


def add_checks(table: str, checks: Mapping[str, str]) -> None:
    known = {c["name"] for c in catalog.inspector().get_check_constraints(table)}
    missing = {name: condition for name, condition in checks.items() if name not in known}
    if not missing:
        return
    for name, condition in missing.items():
        refuse_rows(table, f"NOT ({condition})", f"would break the rule {name} ({condition})")
    with rebuilt(table) as batch:
        for name, condition in missing.items():
            batch.create_check_constraint(name, sa.text(condition))
    for name in missing:
        sql.emit(sql.remember("constraint", f"{table}.{name}"))


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
    del partitions  # SQLite has none
    for key in catalog.inspector().get_foreign_keys(table):
        if key["constrained_columns"] == [column] and key["referred_table"] == target:
            if key["options"].get("ondelete") == on_delete:
                return
            raise MigrationError(
                f"{table}.{column} has a foreign key to {target} without on delete {on_delete.lower()}: "
                "change it, then run the same again"
            )
    child, parent = sql.name(column), sql.name(target_column)
    refuse_rows(
        table,
        f"{child} IS NOT NULL AND {child} NOT IN (SELECT {parent} FROM {sql.name(target)})",
        f"point at no row of {target} ({column})",
    )
    with rebuilt(table) as batch:
        batch.create_foreign_key(name, target, [column], [target_column], ondelete=on_delete)
    sql.emit(sql.remember("constraint", f"{table}.{name}"))


def drop_constraint(table: str, name: str) -> None:
    if catalog.is_ours("constraint", f"{table}.{name}") and catalog.has_table(table):
        kind = (
            "check"
            if name in {c["name"] for c in catalog.inspector().get_check_constraints(table)}
            else "foreignkey"
        )
        with rebuilt(table, without=[name]) as batch:
            batch.drop_constraint(name, type_=kind)
    sql.emit(sql.forget("constraint", f"{table}.{name}"))


# Indexes on SQLite: built, and rebuilt if the definition differs, in the revision's transaction.


def create_index(*indexes: Index) -> None:
    for index in indexes:
        if _is_wanted(index):
            _create_index(index)


def _create_index(index: Index) -> None:
    actual = catalog.index_definition(index.name)
    if actual is None:
        sql.emit(index.statement())
        sql.emit(sql.remember("index", index.name))
    elif index.name not in catalog.indexes(index.table):
        raise MigrationError(
            f"{index.name} exists, but is no index of {index.table}: {actual}; wanted: {index.statement()}. "
            "Drop or rename it, then run the same again"
        )
    elif catalog.folded(actual) != catalog.folded(index.statement()):
        sql.emit(f"DROP INDEX {sql.name(index.name)}")
        sql.emit(index.statement())
        warn("index %s had another definition (%s): rebuilt as %s", index.name, actual, index.statement())


def _is_wanted(index: Index) -> bool:
    """Say whether this table has the columns that the index needs."""
    if index.types:
        return False
    if not index.needs:
        return True
    return catalog.has_table(index.table) and set(index.needs) <= set(catalog.column_names(index.table))


def drop_index(*names: str) -> None:
    for name in names:
        if catalog.is_ours("index", name):
            sql.emit(f"DROP INDEX IF EXISTS {sql.name(name)}")
            sql.emit(sql.forget("index", name))
