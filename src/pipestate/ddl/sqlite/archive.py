"""The archive on SQLite: a renamed table, a copy of the columns, a manifest beside them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from alembic import op

from pipestate.ddl import objects, sql
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.force import force_reason
from pipestate.ddl.sqlite import look
from pipestate.ledger.record import record_event
from pipestate.ledger.state import has_ledger

PREFIX = "pipestate_archive_"
MANIFEST = f"{PREFIX}manifest"


def archive_table(table: str, *, when: str = "true") -> None:
    refuse_offline()
    if not look.has_table(table):
        return
    refuse_readers(table, table)
    if look.has_table(PREFIX + table):
        raise MigrationError(
            f"{PREFIX}{table} exists already, from an earlier archive: look at it, drop it, then run the same again"
        )
    record("table", table, {"ours": objects.is_ours_on_sqlite("table", table)})
    sql.emit(f"ALTER TABLE {sql.name(table)} RENAME TO {sql.name(PREFIX + table)}")


def restore_table(table: str) -> None:
    bring_back_table(table)


def bring_back_table(table: str) -> None:
    if (
        sql.is_offline()
        or not look.has_table(PREFIX + table)
        or look.has_table(table)
        or not look.has_table(MANIFEST)
    ):
        return
    ours = definition("table", table)["ours"]
    sql.emit(f"ALTER TABLE {sql.name(PREFIX + table)} RENAME TO {sql.name(table)}")
    sql.emit(f"DELETE FROM {MANIFEST} WHERE kind = 'table' AND name = {sql.literal(table)}")
    if ours:
        sql.emit(objects.remember("table", table))


def is_archived(table: str) -> bool:
    return look.has_table(PREFIX + table)


def needs_more(table: str, columns: Sequence[str]) -> bool:
    """Has it other columns that must be given a value?"""
    rows = op.get_bind().exec_driver_sql(
        'SELECT name FROM pragma_table_info(?) WHERE "notnull" AND dflt_value IS NULL', (table,)
    )
    return any(row.name not in columns for row in rows)


def is_known(kind: str, name: str) -> bool:
    """Is it in the archive, or noted as absent?"""
    found = definition(kind, name) if look.has_table(MANIFEST) else {}
    aside = PREFIX + name if kind == "table" else f"{PREFIX}{name}_columns"
    return "absent" in found or (bool(found) and look.has_table(aside))


def changed_since_archived(kind: str, name: str, time: str) -> str:
    entry = f"WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)}"
    return f"julianday({time}) > (SELECT julianday(archived_at) FROM {MANIFEST} {entry})"


def refresh_archived(
    table: str, *, key: str, source: str, changed_at: str, derived: Mapping[str, str]
) -> None:
    if sql.is_offline() or not is_archived(table):
        return
    target, column, origin = sql.name(PREFIX + table), sql.name(key), sql.name(source)
    changed = changed_since_archived("table", table, f"s.{sql.name(changed_at)}")
    known = f"s.{column} = {target}.{column}"
    new = ", ".join(f"{sql.name(n)} = coalesce(({e}), {target}.{sql.name(n)})" for n, e in derived.items())
    sql.emit(
        f"UPDATE {target} SET {new} FROM {origin} s WHERE s.current_stage IS NOT NULL AND {known} AND {changed}"
    )
    if not needs_more(PREFIX + table, (key, *derived)):
        sql.emit(
            f"INSERT INTO {target} ({column}, {', '.join(sql.name(name) for name in derived)}) "
            f"SELECT s.{column}, {', '.join(derived.values())} FROM {origin} s WHERE s.current_stage IS NOT NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {target} WHERE {known}) ON CONFLICT DO NOTHING"
        )


def require_archived(kind: str, name: str) -> None:
    if sql.is_offline() or is_known(kind, name):
        return
    what = name if kind == "table" else f"the legacy columns of {name}"
    reason = force_reason()
    if reason is None:
        raise MigrationError(
            f"the archive of {what} is gone (purged?), so this downgrade cannot bring it back. "
            "To go on and have it empty, or derived from the new columns: alembic -x force='reason' downgrade ..."
        )
    if has_ledger(op.get_bind()):
        said = f"downgrade without the archive of {what}: {reason}"
        record_event(op.get_bind(), "force", revision=sql.current_revision(), reason=said)


def forget_archived(kind: str, name: str) -> None:
    if sql.is_offline() or look.has_table(MANIFEST):
        entry = f"WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)}"
        sql.emit(f"DELETE FROM {MANIFEST} {entry}")


def note_absence(kind: str, name: str) -> None:
    if not look.has_table(MANIFEST) or not is_known(kind, name):
        record(kind, name, {"absent": True})


def drop_archive_if_empty() -> None:
    if sql.is_offline() or not look.has_table(MANIFEST):
        return
    if not look.has_rows(MANIFEST):
        sql.emit(f"DROP TABLE {MANIFEST}")


def refuse_offline() -> None:
    if sql.is_offline():
        raise MigrationError(
            "this revision looks at the rows before it drops anything, which a script for SQLite cannot: "
            "run it without --sql"
        )


def definition(kind: str, name: str) -> dict[str, Any]:
    query = f"SELECT definition FROM {MANIFEST} WHERE kind = ? AND name = ?"
    found: dict[str, Any] = json.loads(op.get_bind().exec_driver_sql(query, (kind, name)).scalar() or "{}")
    return found


def record(kind: str, name: str, definition: Mapping[str, Any]) -> None:
    sql.emit(
        f"CREATE TABLE IF NOT EXISTS {MANIFEST} (kind VARCHAR(20) NOT NULL, name VARCHAR(200) NOT NULL, "
        "archived_at TIMESTAMP DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL, definition JSON NOT NULL, "
        f"CONSTRAINT pk_{MANIFEST} PRIMARY KEY (kind, name))"
    )
    values = sql.literals((kind, name, json.dumps(definition)))
    sql.emit(f"INSERT OR REPLACE INTO {MANIFEST} (kind, name, definition) VALUES ({values})")


def refuse_readers(table: str, word: str) -> None:
    """Views and triggers whose text names it, and foreign keys of other tables."""
    rows = op.get_bind().exec_driver_sql(
        "SELECT type, name, sql FROM sqlite_master "
        "WHERE type = 'view' OR (type = 'trigger' AND (tbl_name <> ? OR ? <> ?))",
        (table, word, table),
    )
    named = rf"\b{re.escape(word)}\b"
    found = [
        f"{row.type} {row.name}"
        for row in rows
        if re.search(named, row.sql) and re.search(rf"\b{re.escape(table)}\b", row.sql)
    ]
    if word == table:
        found += [
            f"foreign key of {other}"
            for other in look.inspector().get_table_names()
            if not other.startswith(PREFIX)
            for key in look.inspector().get_foreign_keys(other)
            if key["referred_table"] == table and other != table
        ]
    if found:
        raise MigrationError(
            f"{word} cannot go while others depend on it: {', '.join(found)}. "
            "Drop or change them, then run the same again"
        )
