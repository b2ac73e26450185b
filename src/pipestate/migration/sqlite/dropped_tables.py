"""Soft-dropped tables on SQLite: renamed, with a manifest of everything that can be restored."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.ledger.record import record_event
from pipestate.ledger.state import has_ledger
from pipestate.migration import sql
from pipestate.migration.contract import DroppedColumns, DroppedTable
from pipestate.migration.failure import MigrationError, warn
from pipestate.migration.request import force_reason
from pipestate.migration.run import current_run
from pipestate.migration.sqlite import catalog
from pipestate.migration.sqlite.rebuild import naming

PREFIX = "pipestate_archive_"
MANIFEST = f"{PREFIX}manifest"
NO_TRIGGERS = "drop_triggers is for PostgreSQL: on SQLite drop the trigger in the revision itself"
THEN = "pipestate_then_"


def aside_of(dropped: DroppedTable | DroppedColumns) -> str:
    """Name the table that keeps the dropped rows or values."""
    if isinstance(dropped, DroppedTable):
        return PREFIX + dropped.table
    return "_".join(part for part in (f"{PREFIX}{dropped.table}_columns", dropped.revision) if part)


def _baseline(dropped: DroppedTable) -> str:
    return "_".join(part for part in (f"{PREFIX}{dropped.table}_before", dropped.revision) if part)


def refuse_unfit_table(dropped: DroppedTable, *, must_exist: bool, others: Sequence[str]) -> None:
    if catalog.has_table(dropped.table):
        refuse_readers(dropped.table, dropped.table, others=others)
    elif must_exist:
        refuse_absent(dropped.revision, dropped.table)


def keep_baseline(dropped: DroppedTable) -> None:
    if dropped.derived is None or not catalog.has_table(dropped.table):
        return
    key, source = catalog.key_of(dropped.table, dropped.key), dropped.derived.source
    kept = [*map(sql.quoted, key), *row_of_then(source, dropped.changed_at)]
    sql.emit(f"DROP TABLE IF EXISTS {sql.quoted(_baseline(dropped))}")
    sql.emit(
        f"CREATE TABLE {sql.quoted(_baseline(dropped))} AS SELECT {', '.join(kept)} FROM {sql.quoted(source)}"
    )


def row_of_then(table: str, changed_at: str | None, without: Sequence[str] = ()) -> list[str]:
    """Write what a copy keeps of a row, to tell later whether it was modified: its time of change, or all of it."""
    names = [changed_at] if changed_at else [n for n in catalog.column_names(table) if n not in without]
    return [f"{sql.quoted(name)} AS {sql.quoted(THEN + name)}" for name in names]


def modified_since(table: str, copy: str, alias: str) -> str:
    """Write the condition that row `s` of the table differs from what the copy, under this alias, keeps of it."""
    kept = {name.lower() for name in catalog.column_names(copy)}
    names = [name for name in catalog.column_names(table) if (THEN + name).lower() in kept]
    differs = (
        f"s.{sql.quoted(name)} IS NOT {alias}.{sql.quoted(THEN + name)} COLLATE BINARY" for name in names
    )
    return f"({' OR '.join(differs) or '0'})"


def soft_drop_table(dropped: DroppedTable) -> None:
    if not catalog.has_table(dropped.table):
        return
    refuse_readers(dropped.table, dropped.table)
    if catalog.has_table(aside_of(dropped)):
        raise MigrationError(
            f"{aside_of(dropped)} exists already, from an earlier contract: save its rows if needed, drop it, then "
            "run the "
            "same again"
        )
    baseline = sql.quoted(_baseline(dropped)) if catalog.has_table(_baseline(dropped)) else None
    held = catalog.has_rows(dropped.table)
    ours = catalog.is_ours("table", dropped.table)
    record(dropped, {"ours": ours, "baseline": baseline, "held": held, "revision": dropped.revision})
    sql.emit(f"ALTER TABLE {sql.quoted(dropped.table)} RENAME TO {sql.quoted(aside_of(dropped))}")


def restore_table(dropped: DroppedTable) -> None:
    if not catalog.has_table(aside_of(dropped)):
        return
    if catalog.has_table(dropped.table):
        raise MigrationError(
            f"{dropped.table} exists again, so the dropped one cannot be restored: rename or drop the new "
            "one, then run the same again"
        )
    _refresh(dropped)
    restore_if_dropped(dropped.table)
    warn_of_orphans(dropped.table)
    sql.emit(f"DROP TABLE IF EXISTS {sql.quoted(_baseline(dropped))}")


def restore_if_dropped(table: str) -> None:
    """Rename a soft-dropped table back, if there is one and its name is free."""
    dropped = DroppedTable(table)
    if not catalog.has_table(aside_of(dropped)) or catalog.has_table(table):
        return
    if not (entry := definition(dropped)):
        return
    sql.emit(f"ALTER TABLE {sql.quoted(aside_of(dropped))} RENAME TO {sql.quoted(table)}")
    forget(dropped)
    if entry["ours"]:
        sql.emit(sql.remember("table", table))


def _refresh(dropped: DroppedTable) -> None:
    """Derive rows that were modified or added since, from the table that replaced it."""
    if dropped.derived is None:
        return
    key = catalog.key_of(aside_of(dropped), dropped.key)
    target, source = sql.quoted(aside_of(dropped)), sql.quoted(dropped.derived.source)
    same = " AND ".join(f"s.{sql.quoted(name)} = t.{sql.quoted(name)}" for name in key)
    derived, where = dropped.derived.columns, dropped.derived.where
    broken = 0
    if catalog.has_table(_baseline(dropped)):
        new = ", ".join(f"{sql.quoted(n)} = coalesce(({e}), t.{sql.quoted(n)})" for n, e in derived.items())
        modified = (
            f"{source} s LEFT JOIN {sql.quoted(_baseline(dropped))} b USING "
            f"({', '.join(map(sql.quoted, key))})",
            f"({where}) AND {same} AND {modified_since(dropped.derived.source, _baseline(dropped), 'b')}",
        )
        wanted = catalog.scalar(f"SELECT count(*) FROM {target} t, {modified[0]} WHERE {modified[1]}")
        sql.emit(f"UPDATE OR IGNORE {target} AS t SET {new} FROM {modified[0]} WHERE {modified[1]}")
        broken += int(wanted) - int(catalog.scalar("SELECT changes()"))
    if needed := catalog.needs_more(aside_of(dropped), (*key, *derived)):
        warn(
            "newer rows of %s were not copied into %s: add its column %s to `derived`",
            dropped.derived.source,
            dropped.table,
            ", ".join(needed),
        )
    else:
        absent = f"FROM {source} s WHERE ({where}) AND NOT EXISTS (SELECT 1 FROM {target} t WHERE {same})"
        sql.emit(
            f"INSERT OR IGNORE INTO {target} ({', '.join(map(sql.quoted, (*key, *derived)))}) "
            f"SELECT {', '.join([f's.{sql.quoted(name)}' for name in key] + list(derived.values()))} {absent}"
        )
        broken += int(catalog.scalar(f"SELECT count(*) {absent}"))
    if broken:
        warn(
            "%s of %s could not be derived: they break a constraint of %s",
            rows_of(broken),
            dropped.derived.source,
            dropped.table,
        )


def rows_of(number: int) -> str:
    return "one row" if number == 1 else f"{number} rows"


def warn_of_orphans(table: str) -> None:
    """Report restored rows that point at rows deleted since: foreign_keys may be off here."""
    try:
        found = catalog.connection().exec_driver_sql(f"PRAGMA foreign_key_check({sql.quoted(table)})").all()
    except DBAPIError:  # a foreign key that names no key of its parent
        return
    for parent in sorted({str(row[2]) for row in found}):
        count = sum(str(row[2]) == parent for row in found)
        warn("%s of %s point at rows of %s that do not exist", rows_of(count), table, parent)


# The manifest.


def note_absence(dropped: DroppedTable | DroppedColumns) -> None:
    if not _is_known(dropped):
        record(dropped, {"absent": True})


def require_kept(dropped: DroppedTable | DroppedColumns) -> None:
    """Refuse if there are no values to restore, unless forced."""
    catalog.begin()
    fault = None if _is_known(dropped) else f"the dropped rows of {dropped.described} are gone (purged?)"
    if fault is None and definition(dropped).get("held") and not catalog.has_rows(aside_of(dropped)):
        fault = (
            f"every dropped row of {dropped.described} is missing, perhaps because a dump left out its data"
        )
    if fault is None:
        return
    reason = force_reason()
    if reason is None:
        raise MigrationError(
            f"{fault}, so this downgrade cannot restore it. To continue with derived values only: alembic -x "
            "force='reason' downgrade ..."
        )
    if has_ledger(catalog.connection()):
        said = f"downgrade without the dropped rows of {dropped.described}: {reason}"
        record_event(catalog.connection(), "force", revision=current_run().revision, reason=said)


def forget(dropped: DroppedTable | DroppedColumns) -> None:
    if catalog.has_table(MANIFEST):
        kind, name, revision = map(sql.literal, _entry(dropped))
        sql.emit(f"DELETE FROM {MANIFEST} WHERE kind = {kind} AND name = {name} AND revision = {revision}")


def drop_manifest_if_empty() -> None:
    if catalog.has_table(MANIFEST) and not catalog.has_rows(MANIFEST):
        sql.emit(f"DROP TABLE {MANIFEST}")


def definition(dropped: DroppedTable | DroppedColumns) -> dict[str, Any]:
    """Read the entry in the manifest; empty without one."""
    if not catalog.has_table(MANIFEST):
        return {}
    query = f"SELECT definition FROM {MANIFEST} WHERE kind = ? AND name = ? AND revision = ?"
    found: dict[str, Any] = json.loads(
        catalog.connection().exec_driver_sql(query, _entry(dropped)).scalar() or "{}"
    )
    return found


def record(dropped: DroppedTable | DroppedColumns, definition: Mapping[str, Any]) -> None:
    """Write the entry into the manifest."""
    sql.emit(
        f"CREATE TABLE IF NOT EXISTS {MANIFEST} (kind TEXT NOT NULL, name TEXT NOT NULL, "
        "revision TEXT DEFAULT '' NOT NULL, aside TEXT, "
        "archived_at TIMESTAMP DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL, definition JSON NOT "
        f"NULL, CONSTRAINT pk_{MANIFEST} PRIMARY KEY (kind, name, revision))"
    )
    aside = "NULL" if "absent" in definition else sql.literal(sql.quoted(aside_of(dropped)))
    values = sql.literals((*_entry(dropped), json.dumps(definition)))
    sql.emit(
        f"INSERT OR REPLACE INTO {MANIFEST} (kind, name, revision, definition, aside) VALUES ({values}, "
        f"{aside})"
    )


def _entry(dropped: DroppedTable | DroppedColumns) -> tuple[str, str, str]:
    return dropped.kind, dropped.table, dropped.revision if isinstance(dropped, DroppedColumns) else ""


def _is_known(dropped: DroppedTable | DroppedColumns) -> bool:
    """Say whether the object can be restored, or was noted as absent."""
    found = definition(dropped)
    return "absent" in found or (bool(found) and catalog.has_table(aside_of(dropped)))


# Refusals.


def refuse_absent(revision: str, what: str) -> None:
    raise MigrationError(
        f"revision {revision} drops {what}, which does not exist: correct the name, or write "
        "may_be_gone=True where that is right"
    )


def refuse_readers(table: str, word: str, *, others: Sequence[str] = ()) -> None:
    """Refuse if views or triggers name it, in any case, or foreign keys of other tables point at it."""
    rows = catalog.connection().exec_driver_sql(
        "SELECT type, name, sql FROM sqlite_master "
        "WHERE type = 'view' OR (type = 'trigger' AND (tbl_name <> ? OR ? <> ?))",
        (table, word, table),
    )
    found = [
        f"{row.type} {row.name}"
        for row in rows
        if all(naming([each]).search(row.sql) for each in (word, table))
    ]
    lowered = {table.lower(), *map(str.lower, others)}
    if word == table:
        found += [
            f"foreign key of {other}"
            for other in catalog.referring(table)
            if not other.startswith(PREFIX) and other.lower() not in lowered
        ]
    if found:
        raise MigrationError(
            f"{word} cannot be dropped while others depend on it: {', '.join(found)}. "
            "Drop or change them, then run the same again"
        )


def ledger_fault(connection: Connection) -> None:
    """Return None: a contract needs no ledger on SQLite."""
    del connection


def columns_fault(
    connection: Connection, table: str, columns: Sequence[str], triggers: Sequence[str]
) -> str | None:
    """Say why the columns could not be dropped now; None if they can."""
    if triggers:
        return NO_TRIGGERS
    try:
        with Operations.context(MigrationContext.configure(connection)):
            for column in columns:
                refuse_readers(table, column)
    except MigrationError as error:
        return str(error)
    return None
