"""Indexes on SQLite."""

from pipestate.ddl import objects, sql
from pipestate.ddl.definitions import Index
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.sqlite import look


def create_index(index: Index) -> None:
    actual = None if sql.is_offline() else look.index_definition(index.name)
    if actual is None:
        sql.emit(index.statement())
        sql.emit(objects.remember("index", index.name))
    elif look.folded(actual) != look.folded(index.statement()):
        raise MigrationError(
            f"index {index.name} exists with another definition: {actual}; wanted: {index.statement()}. "
            "Drop or rename it, then run the same again"
        )


def drop_index(name: str) -> None:
    if objects.is_ours_on_sqlite("index", name):
        sql.emit(f"DROP INDEX IF EXISTS {sql.name(name)}")
        sql.emit(objects.forget("index", name))
