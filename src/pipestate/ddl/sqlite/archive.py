"""The archive on SQLite: a renamed table, a copy of the columns, a manifest beside them."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipestate.ddl import objects, sql
from pipestate.ddl.contract_parts import GoingColumns, GoingTable
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.force import force_reason
from pipestate.ddl.notice import warn
from pipestate.ddl.sqlite import look
from pipestate.ledger.record import record_event
from pipestate.ledger.state import has_ledger

PREFIX = "pipestate_archive_"
MANIFEST = f"{PREFIX}manifest"


def aside_of(going: GoingTable | GoingColumns) -> str:
    """Name what lies in the archive."""
    if isinstance(going, GoingTable):
        return PREFIX + going.table
    return "_".join(part for part in (f"{PREFIX}{going.table}_columns", going.revision) if part)


def _baseline(going: GoingTable) -> str:
    return "_".join(part for part in (f"{PREFIX}{going.table}_before", going.revision) if part)


def refuse_unfit_table(
    going: GoingTable, *, must_exist: bool = False, others: Sequence[str] = (), when: str = "true"
) -> None:
    if look.has_table(going.table):
        refuse_readers(going.table, going.table, others=others)
    elif must_exist:
        refuse_absent(going.revision, going.table)


def keep_baseline(going: GoingTable) -> None:
    if going.derived is None or going.changed_at is None or not look.has_table(going.table):
        return
    key = ", ".join(sql.name(name) for name in look.key_of(going.table, going.key))
    sql.emit(f"DROP TABLE IF EXISTS {sql.name(_baseline(going))}")
    sql.emit(
        f"CREATE TABLE {sql.name(_baseline(going))} AS SELECT {key}, {sql.name(going.changed_at)} "
        f"AS pipestate_changed_at FROM {sql.name(going.derived.source)}"
    )


def archive_table(going: GoingTable, *, when: str = "true") -> None:
    if not look.has_table(going.table):
        return
    refuse_readers(going.table, going.table)
    if look.has_table(aside_of(going)):
        raise MigrationError(
            f"{aside_of(going)} exists already, from an earlier archive: look at it, drop it, then run the same again"
        )
    baseline = sql.name(_baseline(going)) if look.has_table(_baseline(going)) else None
    held = look.has_rows(going.table)
    record(going, {"ours": look.is_ours("table", going.table), "baseline": baseline, "held": held})
    sql.emit(f"ALTER TABLE {sql.name(going.table)} RENAME TO {sql.name(aside_of(going))}")


def restore_table(going: GoingTable) -> None:
    if not look.has_table(aside_of(going)):
        return
    if look.has_table(going.table):
        raise MigrationError(
            f"{going.table} exists again, so the archived one cannot come back: rename or drop it, "
            "then run the same again"
        )
    _refresh(going)
    bring_back_table(going.table)
    sql.emit(f"DROP TABLE IF EXISTS {sql.name(_baseline(going))}")


def bring_back_table(table: str) -> None:
    going = GoingTable(table)
    if not look.has_table(aside_of(going)) or look.has_table(table):
        return
    if not (entry := definition(going)):
        return
    sql.emit(f"ALTER TABLE {sql.name(aside_of(going))} RENAME TO {sql.name(table)}")
    forget_archived(going)
    if entry["ours"]:
        sql.emit(objects.remember("table", table))


def _refresh(going: GoingTable) -> None:
    """Bring it up to date from what replaced it: rows that changed since, and rows that it does not know."""
    if going.derived is None:
        return
    key = look.key_of(aside_of(going), going.key)
    target, source = sql.name(aside_of(going)), sql.name(going.derived.source)
    same = " AND ".join(f"s.{sql.name(name)} = t.{sql.name(name)}" for name in key)
    derived, where = going.derived.columns, going.derived.where
    if going.changed_at is not None and look.has_table(_baseline(going)):
        new = ", ".join(f"{sql.name(n)} = coalesce(({e}), t.{sql.name(n)})" for n, e in derived.items())
        sql.emit(
            f"UPDATE {target} AS t SET {new} FROM {source} s "
            f"LEFT JOIN {sql.name(_baseline(going))} b USING ({', '.join(map(sql.name, key))}) "
            f"WHERE ({where}) AND {same} AND s.{sql.name(going.changed_at)} IS NOT b.pipestate_changed_at"
        )
    if needed := look.needs_more(aside_of(going), (*key, *derived)):
        warn(
            "rows of %s that came since have none in %s: nothing says what its %s would be",
            going.derived.source,
            going.table,
            ", ".join(needed),
        )
        return
    sql.emit(
        f"INSERT INTO {target} ({', '.join(map(sql.name, (*key, *derived)))}) "
        f"SELECT {', '.join([f's.{sql.name(name)}' for name in key] + list(derived.values()))} FROM {source} s "
        f"WHERE ({where}) AND NOT EXISTS (SELECT 1 FROM {target} t WHERE {same}) ON CONFLICT DO NOTHING"
    )


# --- The manifest ----------------------------------------------------------------------------------


def note_absence(going: GoingTable | GoingColumns) -> None:
    if not _is_known(going):
        record(going, {"absent": True})


def require_archived(going: GoingTable | GoingColumns) -> None:
    look.begin()
    fault = None if _is_known(going) else f"the archive of {going.described} is gone (purged?)"
    if fault is None and definition(going).get("held") and not look.has_rows(aside_of(going)):
        fault = f"every row in the archive of {going.described} is gone (a dump without its data?)"
    if fault is None:
        return
    reason = force_reason()
    if reason is None:
        raise MigrationError(
            f"{fault}, so this downgrade cannot bring it back. To go on without it, with what can be derived: alembic "
            "-x force='reason' downgrade ..."
        )
    if has_ledger(look.connection()):
        said = f"downgrade without the archive of {going.described}: {reason}"
        record_event(look.connection(), "force", revision=sql.current_revision(), reason=said)


def forget_archived(going: GoingTable | GoingColumns) -> None:
    if look.has_table(MANIFEST):
        kind, name, revision = map(sql.literal, _entry(going))
        sql.emit(f"DELETE FROM {MANIFEST} WHERE kind = {kind} AND name = {name} AND revision = {revision}")


def drop_archive_if_empty() -> None:
    if look.has_table(MANIFEST) and not look.has_rows(MANIFEST):
        sql.emit(f"DROP TABLE {MANIFEST}")


def definition(going: GoingTable | GoingColumns) -> dict[str, Any]:
    """Read what the manifest says; nothing where it does not know it."""
    if not look.has_table(MANIFEST):
        return {}
    query = f"SELECT definition FROM {MANIFEST} WHERE kind = ? AND name = ? AND revision = ?"
    found: dict[str, Any] = json.loads(
        look.connection().exec_driver_sql(query, _entry(going)).scalar() or "{}"
    )
    return found


def record(going: GoingTable | GoingColumns, definition: Mapping[str, Any]) -> None:
    """Write it into the manifest."""
    sql.emit(
        f"CREATE TABLE IF NOT EXISTS {MANIFEST} (kind TEXT NOT NULL, name TEXT NOT NULL, "
        "revision TEXT DEFAULT '' NOT NULL, aside TEXT, "
        "archived_at TIMESTAMP DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL, definition JSON NOT NULL, "
        f"CONSTRAINT pk_{MANIFEST} PRIMARY KEY (kind, name, revision))"
    )
    aside = "NULL" if "absent" in definition else sql.literal(sql.name(aside_of(going)))
    values = sql.literals((*_entry(going), json.dumps(definition)))
    sql.emit(
        f"INSERT OR REPLACE INTO {MANIFEST} (kind, name, revision, definition, aside) VALUES ({values}, {aside})"
    )


def _entry(going: GoingTable | GoingColumns) -> tuple[str, str, str]:
    return going.kind, going.table, going.revision if isinstance(going, GoingColumns) else ""


def _is_known(going: GoingTable | GoingColumns) -> bool:
    """Say whether it is in the archive, or noted as absent."""
    found = definition(going)
    return "absent" in found or (bool(found) and look.has_table(aside_of(going)))


# --- What is refused -------------------------------------------------------------------------------


def refuse_absent(revision: str, what: str) -> None:
    raise MigrationError(
        f"revision {revision} takes {what} away, which does not exist: fix its name, or write may_be_gone=True "
        "where that is right"
    )


def refuse_readers(table: str, word: str, *, others: Sequence[str] = ()) -> None:
    """Refuse where views or triggers name it in their text, in capitals or not, or foreign keys of others point at it."""
    rows = look.connection().exec_driver_sql(
        "SELECT type, name, sql FROM sqlite_master "
        "WHERE type = 'view' OR (type = 'trigger' AND (tbl_name <> ? OR ? <> ?))",
        (table, word, table),
    )
    found = [
        f"{row.type} {row.name}"
        for row in rows
        if all(re.search(rf"\b{re.escape(each)}\b", row.sql, re.IGNORECASE) for each in (word, table))
    ]
    if word == table:
        found += [
            f"foreign key of {other}"
            for other in look.referring(table)
            if not other.startswith(PREFIX) and other not in others
        ]
    if found:
        raise MigrationError(
            f"{word} cannot go while others depend on it: {', '.join(found)}. "
            "Drop or change them, then run the same again"
        )
