"""Tables and views on SQLite: created where absent, dropped only if ours and empty."""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from pipestate.ddl import objects, sql
from pipestate.ddl.contract_parts import GoingTable
from pipestate.ddl.definitions import Index, KeyOf, keys_of_others
from pipestate.ddl.sqlite import archive, look


def create_table(table: sa.Table, *indexes: Index) -> None:
    archive.bring_back_table(table.name)
    if look.has_table(table.name):
        return
    statement = str(CreateTable(table).compile(dialect=sql.SQLITE)).strip()
    for column in keys_of_others(table):
        source, _, attribute = column.partition(".")
        actual = look.column_type(source, attribute) or "INTEGER"
        statement = statement.replace(KeyOf(column).get_col_spec(), actual)
    sql.emit(statement)
    for index in indexes:
        sql.emit(index.statement())
        sql.emit(objects.remember("index", index.name))
    sql.emit(objects.remember("table", table.name))


def drop_table(name: str) -> None:
    if not look.is_ours("table", name) or not look.has_table(name):
        return
    if look.has_rows(name):
        archive.archive_table(GoingTable(name))
    else:
        sql.emit(f"DROP TABLE {sql.name(name)}")
    sql.emit(objects.forget("table", name))


def analyze_table(_table: str) -> None:
    """Do nothing: SQLite plans by the schema."""


def create_view(name: str, queries: Mapping[str, str], *, comment: str) -> None:
    if look.has_view(name):
        return
    sql.emit(f"CREATE VIEW {sql.name(name)} AS {queries['sqlite']}")
    sql.emit(objects.remember("view", name))


def drop_view(name: str) -> None:
    if look.is_ours("view", name):
        sql.emit(f"DROP VIEW IF EXISTS {sql.name(name)}")
    sql.emit(objects.forget("view", name))


def replace_comment(table: str, comment: str, *, revision: str) -> None:
    """Do nothing: SQLite has no comments."""


def restore_comment(table: str, comment: str, *, revision: str) -> None:
    """Do nothing: SQLite has no comments."""
