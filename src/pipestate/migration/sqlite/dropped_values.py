"""Rows of a table on SQLite beside their dropped values: which are new, and which were modified since."""

from pipestate.ledger.record import record_event
from pipestate.ledger.state import has_ledger
from pipestate.migration import sql
from pipestate.migration.contract import DroppedColumns
from pipestate.migration.failure import MigrationError, tell, warn
from pipestate.migration.request import force_reason
from pipestate.migration.sqlite import catalog
from pipestate.migration.sqlite.dropped_tables import aside_of, definition, modified_since


def same_row(dropped: DroppedColumns) -> str:
    """Write the condition that `a` is the copy of row `s`, by the collation of the key that distinguished
    rows."""
    collations = definition(dropped).get("collations", {})
    return " AND ".join(
        f"a.{sql.quoted(name)} = s.{sql.quoted(name)} COLLATE {collations.get(name.lower(), 'BINARY')}"
        for name in catalog.key_of(dropped.table, dropped.key)
    )


def joined(dropped: DroppedColumns) -> str:
    """Write the FROM clause: rows `s` of the table, with their dropped values `a`."""
    return f"FROM {sql.quoted(dropped.table)} s LEFT JOIN {sql.quoted(aside_of(dropped))} a ON {same_row(dropped)}"


def is_new(dropped: DroppedColumns) -> str:
    return f"a.{sql.quoted(catalog.key_of(dropped.table, dropped.key)[0])} IS NULL"


def is_modified(dropped: DroppedColumns) -> str:
    return modified_since(dropped.table, aside_of(dropped), "a")


def refuse_stale_values(dropped: DroppedColumns) -> None:
    """Count the rows; refuse, unless forced, to give those written since an old value, or none."""
    table, kept = dropped.table, definition(dropped)
    if not catalog.has_table(aside_of(dropped)) or "columns" not in kept:
        return
    counts = f"count(*) FILTER (WHERE {is_new(dropped)}), count(*) FILTER (WHERE NOT ({is_new(dropped)}))"
    modified_too = f"count(*) FILTER (WHERE NOT ({is_new(dropped)}) AND {is_modified(dropped)})"
    found = catalog.connection().exec_driver_sql(f"SELECT {counts}, {modified_too} {joined(dropped)}").one()
    new, left, modified = map(int, found)
    revision = dropped.revision
    tell(
        "rows of %s from before revision %s: %s, modified since: %s; new rows: %s",
        table,
        revision,
        left,
        modified,
        new,
    )
    stale = [column["name"] for column in kept["columns"] if column["name"] not in dropped.derived]
    if not stale or not new + modified:
        return
    fault = (
        f"since revision {revision}, new rows of {table}: {new}, modified rows: {modified}. The contract has no "
        f"`derived` for {', '.join(stale)}: new rows would get the default or NULL, modified rows their old value. "
        "Add `derived`"
    )
    if (reason := force_reason()) is None:
        raise MigrationError(f"{fault}, or accept these values: alembic -x force='reason' downgrade ...")
    if has_ledger(catalog.connection()):
        said = f"restore of {dropped.described}, new rows: {new}, modified rows: {modified}: {reason}"
        record_event(catalog.connection(), "force", revision=revision, reason=said)
    warn("%s. This downgrade was forced", fault)
