"""Tables and views: created where absent, left alone where present, dropped only if ours and empty."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import UserDefinedType

from pipestate.ddl import archive, objects, sql, sqlite
from pipestate.ddl.indexes import Index
from pipestate.ddl.locks import lock_tables


class KeyOf(UserDefinedType[Any]):
    """The type of another table's column, as it is in this database: foreign keys follow it.

    `sa.Column("job_id", KeyOf("jobs.id"))` is a uuid where `jobs.id` is one.
    """

    cache_ok = True

    def __init__(self, column: str) -> None:
        self.column = column

    def get_col_spec(self, **_: Any) -> str:
        return f"{{type of {self.column}}}"


def create_table(table: sa.Table, *indexes: Index) -> None:
    """Create the table with its indexes; bring it back where a downgrade put it into the archive.

    A table that is there already is left as it is: adoption is the business of the helpers that
    add columns, constraints and indexes.
    """
    if sql.is_sqlite():
        _create_on_sqlite(table, indexes)
        return
    archive.bring_back_table(table.name)
    statement, types = _creation(table, sql.POSTGRESQL)
    for column in types:
        source, _, attribute = column.partition(".")
        statement = (
            f"replace({statement}, {sql.literal(KeyOf(column).get_col_spec())}, "
            f"(SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
            f"WHERE attrelid = {sql.regclass(source)} AND attname = {sql.literal(attribute)}))"
        )
    rest = [index.statement() for index in indexes] + [objects.remember("table", table.name)]
    rest += [objects.remember("index", index.name) for index in indexes]
    body = "\n".join(f"  EXECUTE {sql.dollar(text, 'ddl')};" for text in rest)
    sql.do(
        f"IF {sql.regclass(table.name)} IS NULL THEN\n  EXECUTE {statement};\n{body}\nEND IF;",
        why=f"create {table.name}",
    )


def drop_table(name: str) -> None:
    """Drop a table of ours that is empty; one with rows goes into the archive, and comes back."""
    if sql.is_sqlite():
        if objects.is_ours_on_sqlite("table", name) and (sql.is_offline() or sqlite.has_table(name)):
            if not sql.is_offline() and sqlite.has_rows(name):
                archive.archive_table(name)
            else:
                sql.emit(f"DROP TABLE {sql.name(name)}")
            sql.emit(objects.forget("table", name))
        return
    ours = objects.is_ours("table", name)
    lock_tables(name, when=ours, also=archive.parents(name))
    sql.do(
        f"""  PERFORM set_config('pipestate.filled', 'false', true);
  IF {sql.regclass(name)} IS NOT NULL AND {ours} THEN
    EXECUTE {sql.literal(f"SELECT EXISTS (SELECT FROM {sql.name(name)})")} INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;""",
        "  filled boolean;",
    )
    archive.archive_table(name, when="current_setting('pipestate.filled')::boolean")
    sql.do_when(ours, f"DROP TABLE IF EXISTS {sql.name(name)}")
    sql.emit(objects.forget("table", name))


def create_view(name: str, query: str, *, comment: str) -> None:
    if sql.is_sqlite():
        sql.emit(f"DROP VIEW IF EXISTS {sql.name(name)}")
        sql.emit(f"CREATE VIEW {sql.name(name)} AS {query}")
        sql.emit(objects.remember("view", name))
        return
    create = f"CREATE VIEW {sql.name(name)} AS {query}"
    sql.do_when(f"{sql.regclass(name)} IS NULL", create, objects.remember("view", name))
    sql.do_when(objects.is_ours("view", name), f"COMMENT ON VIEW {sql.name(name)} IS {sql.literal(comment)}")


def drop_view(name: str) -> None:
    statement = f"DROP VIEW IF EXISTS {sql.name(name)}"
    if not sql.is_sqlite():
        sql.do_when(objects.is_ours("view", name), statement)
    elif objects.is_ours_on_sqlite("view", name):
        sql.emit(statement)
    sql.emit(objects.forget("view", name))


def _creation(table: sa.Table, dialect: sa.Dialect) -> tuple[str, list[str]]:
    statement = str(CreateTable(table).compile(dialect=dialect)).strip()
    types = [column.type.column for column in table.columns if isinstance(column.type, KeyOf)]
    return (sql.dollar(statement, "ddl") if dialect.name == "postgresql" else statement), types


def _create_on_sqlite(table: sa.Table, indexes: tuple[Index, ...]) -> None:
    archive.bring_back_table(table.name)
    if not sql.is_offline() and sqlite.has_table(table.name):
        return
    statement, types = _creation(table, sql.SQLITE)
    for column in types:
        source, _, attribute = column.partition(".")
        actual = "INTEGER" if sql.is_offline() else sqlite.column_type(source, attribute)
        statement = statement.replace(KeyOf(column).get_col_spec(), actual)
    sql.emit(statement)
    for index in indexes:
        sql.emit(index.statement())
        sql.emit(objects.remember("index", index.name))
    sql.emit(objects.remember("table", table.name))


def comment_table(name: str, comment: str | None) -> None:
    if not sql.is_sqlite():
        text = "NULL" if comment is None else sql.literal(comment)
        sql.emit(f"COMMENT ON TABLE {sql.name(name)} IS {text}")


def table_of(name: str, *parts: sa.Column[Any] | sa.Constraint) -> sa.Table:
    """A table as a revision writes it down: literal, in a MetaData of its own."""
    metadata = sa.MetaData()
    for part in parts:
        if isinstance(part, sa.ForeignKeyConstraint):
            for element in part.elements:
                target, _, column = element.target_fullname.rpartition(".")
                sa.Table(target, metadata, sa.Column(column), keep_existing=True)
    return sa.Table(name, metadata, *parts)
