"""PostgreSQL: copies of a table or a column, which are counted before it is dropped."""

from itertools import groupby

from sqlalchemy import Connection

from pipestate.database.drivers import query_driver
from pipestate.database.postgresql import own_path
from pipestate.migration import sql
from pipestate.migration.losses import RunMemory
from pipestate.migration.postgresql.catalogue import Catalogue
from pipestate.migration.statements import columns_in_drop, names_beside_drop

LOCKED = (
    "SELECT relation::bigint FROM pg_locks WHERE pid = pg_backend_pid() "
    "AND locktype = 'relation' AND mode = 'AccessExclusiveLock'"
)
_NAMED = (
    "SELECT c.oid::bigint, format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN "
    "pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p')"
)
# The tables of a text with the columns that it drops, and the tables that inherit from them.
_DROPPED_COLUMNS = """WITH RECURSIVE named (oid) AS (
  SELECT c.oid FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relname IN ({tables})
  UNION SELECT i.inhrelid FROM pg_inherits i JOIN named n ON n.oid = i.inhparent)
SELECT c.oid::bigint, format('%I.%I', s.nspname, c.relname), d.attnum, d.attname,
  CASE WHEN c.relkind = 'r' AND current_setting('track_counts') = 'on'
    THEN pg_stat_get_xact_tuples_updated(c.oid) + pg_stat_get_xact_tuples_inserted(c.oid) END,
  a.attnum, a.attname
FROM named JOIN pg_class c ON c.oid = named.oid AND NOT c.relispartition
JOIN pg_namespace s ON s.oid = c.relnamespace
JOIN pg_attribute d ON d.attrelid = c.oid AND d.attnum > 0 AND d.attname IN ({columns})
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attnum <> d.attnum AND NOT a.attisdropped
  AND a.attgenerated = ''
WHERE has_table_privilege(c.oid, 'SELECT') ORDER BY 1, 3, a.attnum"""
_COLUMNS = (
    "SELECT a.attnum, a.attname FROM pg_attribute a WHERE a.attrelid = {} AND a.attnum > 0 "
    "AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY 1"
)
# The values that a column has, that its copy has in the same rows, and that are equal.
_EQUAL_VALUES = """SELECT count(t.{0}), count(t.{1}) FILTER (WHERE t.{0} IS NOT NULL),
  count(*) FILTER (WHERE t.{0}::text = t.{1}::text) FROM {2} t"""
_IS_EQUAL = """SELECT NOT EXISTS (SELECT FROM {2} t WHERE t.{0} IS NOT NULL AND (t.{1} IS NULL
  OR t.{0}::text <> t.{1}::text))
  AND EXISTS (SELECT FROM {2} t WHERE t.{0} IS NOT NULL)"""
DISTINCT = "SELECT count(t.{0}), count(DISTINCT t.{0}::text) FROM {1} t"
# Per column: its values, and 1 if they differ from each other.
_VALUES = """count(t.{0}), coalesce((min(t.{0}::text COLLATE "C")
  <> max(t.{0}::text COLLATE "C"))::integer, 0)"""


def prepare_statement(
    connection: Connection, statement: str, before: Catalogue, memory: RunMemory
) -> str | None:
    """Before a DROP, count the rows or values that this transaction may have copied."""
    if names_beside_drop(statement)[0] or columns_in_drop(statement)[1]:
        with own_path(connection, query_driver):
            _note_copies(connection, statement, before, memory)
            _note_copied_columns(connection, statement, before, memory)
    return None


def _note_copies(connection: Connection, statement: str, before: Catalogue, memory: RunMemory) -> None:
    """A table that is created later is no copy, unless the same text creates it first."""
    names, creates = names_beside_drop(statement)
    if not names:
        return
    created = {int(oid) for (oid,) in query_driver(connection, LOCKED)} - before.tables.keys()
    if created or creates:
        listed = ", ".join(map(sql.literal, sorted(names)))
        for oid, table in query_driver(connection, f"{_NAMED} AND c.relname IN ({listed})"):
            if oid in before.tables:
                columns = query_driver(connection, _COLUMNS.format(oid))
                rows, values = count_values(connection, table, dict(columns))
                memory.copies[oid] = (rows, values, None if creates else created)


def count_values(
    connection: Connection, table: str, columns: dict[int, str]
) -> tuple[int, dict[int, tuple[int, bool]]]:
    """Count the rows of a table, and the values of each column; say whether a column has several."""
    counts = (_VALUES.format(sql.quoted(name)) for name in columns.values())
    query = f"SELECT ARRAY[{', '.join(['count(*)', *counts])}] FROM {table} t"
    (((rows, *found),),) = query_driver(connection, query)
    pairs = zip(found[::2], found[1::2], strict=True)
    return rows, {
        number: (count, bool(differ)) for number, (count, differ) in zip(columns, pairs, strict=True)
    }


def _note_copied_columns(
    connection: Connection, statement: str, before: Catalogue, memory: RunMemory
) -> None:
    """Find the copies of a column in its table. One that is filled later is no copy."""
    tables, columns, writes = columns_in_drop(statement)
    if not columns:
        return
    named, dropped = (", ".join(map(sql.literal, sorted(names))) for names in (tables, columns))
    rows = query_driver(connection, _DROPPED_COLUMNS.format(tables=named, columns=dropped))
    for (oid, table, number, name, written), found in groupby(rows, lambda row: row[:5]):
        old = before.tables.get(oid)
        if old is None or number not in old.columns or (oid, number) in memory.created:
            continue
        pair = [sql.quoted(name), "", table]
        copies = {}
        for *_, other, candidate in found:
            pair[1] = sql.quoted(candidate or "")
            if other is None:
                continue
            if other in old.columns and (oid, other) not in memory.created:
                if query_driver(connection, _IS_EQUAL.format(*pair))[0][0]:
                    ((had, kept, _),) = query_driver(connection, _EQUAL_VALUES.format(*pair))
                    copies[other] = (had, kept)
                continue
            ((had, kept, equal),) = query_driver(connection, _EQUAL_VALUES.format(*pair))
            is_new = other not in old.columns  # added by this step, so that only its own statements fill it
            is_filled = not is_new or written is None or written >= had / 2
            if kept >= had / 2 and (equal >= had / 2 or (is_filled and _differs(connection, *pair))):
                copies[other] = (had, kept)
        own = query_driver(connection, DISTINCT.format(pair[0], table))[0] if writes else None
        memory.copied_columns[oid, number] = (copies, own)


def _differs(connection: Connection, column: str, copy: str, table: str) -> bool:
    """Say whether a copy by an expression has at least half of the different values."""
    ((_, different),) = query_driver(connection, DISTINCT.format(column, table))
    ((_, copied),) = query_driver(connection, DISTINCT.format(copy, table))
    return bool(copied >= different / 2)
