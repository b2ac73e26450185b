"""Indexes on SQLite: built, and rebuilt where the definition is another one, in the revision's transaction."""

from pipestate.ddl import objects, sql
from pipestate.ddl.definitions import Index
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.notice import warn
from pipestate.ddl.sqlite import look


def create_index(index: Index) -> None:
    if not _is_wanted(index):
        return
    actual = look.index_definition(index.name)
    if actual is None:
        sql.emit(index.statement())
        sql.emit(objects.remember("index", index.name))
    elif index.name not in look.indexes(index.table):
        raise MigrationError(
            f"{index.name} exists, but is no index of {index.table}: {actual}; wanted: {index.statement()}. "
            "Drop or rename it, then run the same again"
        )
    elif look.folded(actual) != look.folded(index.statement()):
        sql.emit(f"DROP INDEX {sql.name(index.name)}")
        sql.emit(index.statement())
        warn("index %s was another one (%s): rebuilt as %s", index.name, actual, index.statement())


def _is_wanted(index: Index) -> bool:
    """Say whether this table has what the index needs."""
    if index.types:
        return False
    if not index.needs:
        return True
    return look.has_table(index.table) and set(index.needs) <= set(look.column_names(index.table))


def drop_index(name: str, *, partitions: bool = False) -> None:
    del partitions  # SQLite has none
    if look.is_ours("index", name):
        sql.emit(f"DROP INDEX IF EXISTS {sql.name(name)}")
        sql.emit(objects.forget("index", name))
