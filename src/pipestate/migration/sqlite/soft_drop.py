"""A contract on SQLite: tables are renamed, columns copied aside, all in the transaction of the revision."""

from pipestate.migration import sql
from pipestate.migration.definitions import Drop
from pipestate.migration.failure import MigrationError
from pipestate.migration.mark import force_reason, require_mark
from pipestate.migration.sqlite import catalog, dropped_columns, dropped_tables
from pipestate.migration.sqlite.rebuild import dropped_in_place, rebuilt, switch_foreign_keys_off


def also_locked(drop: Drop) -> None:
    """Lock nothing else: a file has one writer."""
    del drop


def refuse_drop(drop: Drop) -> None:
    """Refuse, before the first change, objects that could not be restored."""
    if drop.triggers:
        raise MigrationError(
            "drop_triggers is for PostgreSQL: on SQLite drop the trigger in the revision itself"
        )
    switch_foreign_keys_off()
    for table in drop.tables:
        dropped_tables.refuse_unfit_table(
            table, must_exist=not drop.may_be_gone, others=[some.table for some in drop.columns]
        )
    for some in drop.columns:
        dropped_columns.refuse_unfit_columns(some, must_exist=not drop.may_be_gone)


def soft_drop(drop: Drop) -> None:
    """Drop columns first: their foreign keys may point at the tables."""
    require_mark("a Contract", *(part.table for part in drop.parts))
    if not drop.keep:
        _drop_for_good(drop)
        return
    for table in drop.tables:
        dropped_tables.keep_baseline(table)
    for some in drop.columns:
        dropped_columns.soft_drop_columns(some)
    for table in drop.tables:
        dropped_tables.soft_drop_table(table)
    for part in drop.parts if drop.may_be_gone else ():
        dropped_tables.note_absence(part)


def restore(drop: Drop) -> None:
    """Restore tables first: foreign keys of the columns may point at them."""
    switch_foreign_keys_off()
    for part in drop.parts:
        dropped_tables.require_kept(part)
    for some in drop.columns:
        dropped_columns.refuse_unfit_restore(some)
    for table in drop.tables:
        dropped_tables.restore_table(table)
    for some in drop.columns:
        if force_reason() is not None:
            dropped_columns.empty_copy(some)
        dropped_columns.restore_columns(some)
    for part in drop.parts:
        dropped_tables.forget(part)


def _drop_for_good(drop: Drop) -> None:
    """Drop columns first: with foreign_keys on, DROP TABLE deletes the rows that point at it."""
    for some in drop.columns:
        if not catalog.has_table(some.table):
            continue
        names = [name for name in catalog.column_names(some.table) if name in some.columns]
        if names and not dropped_in_place(some.table, names):
            with rebuilt(some.table, without=names) as batch:
                for name in names:
                    batch.drop_column(name)
    for table in drop.tables:
        if catalog.has_table(table.table):
            sql.emit(f"DROP TABLE {sql.quoted(table.table)}")
