"""SQLite: the tables before and after a step, the losses between them, and the step's savepoint.

A table has no number here that outlives a copy, so each column is followed by `moves`.
"""

import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from secrets import token_hex

from sqlalchemy import Connection

from pipestate.database.drivers import on_sqlite
from pipestate.ledger.tables import SCHEMA
from pipestate.migration import sql
from pipestate.migration.losses import Loss, LossKind, RunMemory
from pipestate.migration.sqlite.moves import (
    Moves,
    SqliteCatalogue,
    SqliteTable,
    columns_of,
    name_at,
    schema_version,
)
from pipestate.migration.sqlite.session import switch_foreign_keys_off
from pipestate.runbook.statement import tokens

_SAVEPOINT = f"pipestate_step_{token_hex(4)}"  # no revision sets one of this name
_TABLES = r"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'"
_GAP = r"(?is)(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_DROPS = re.compile(rf"{_GAP}drop\b")
_FOLLOWED = re.compile(rf"{_GAP}(?:alter|create|drop|savepoint|rollback|(?:insert|replace)\b.*\bselect)\b")
KEYS_ARE_ON = (
    "would rebuild or drop {table} with foreign_keys on, which deletes or changes the rows of {others} that point at it: "
    "set PRAGMA foreign_keys = OFF on the connection before its transaction begins"
)
_REFERRING = (  # tables whose rows a DROP of this one deletes or changes
    "SELECT DISTINCT m.name FROM sqlite_master AS m, pragma_foreign_key_list(m.name) AS f WHERE m.type = 'table' AND "
    "lower(f.\"table\") = ?1 AND lower(m.name) <> ?1 AND f.on_delete IN ('CASCADE', 'SET NULL', 'SET DEFAULT') ORDER BY 1"
)


def read_catalogue(connection: Connection) -> SqliteCatalogue:
    """Read all tables, and whether they hold a row."""
    return on_sqlite(connection, _read)


def compare(
    connection: Connection, before: SqliteCatalogue, memory: RunMemory, statements: Sequence[str]
) -> tuple[SqliteCatalogue, list[Loss]]:
    """Compare the tables, as the statements of the step have moved them."""
    del statements  # each was followed before it ran
    moves: Moves = memory.moves or Moves(before)
    on_sqlite(connection, moves.settle)
    after = read_catalogue(connection)
    shrunk = on_sqlite(connection, moves.find_shrunk)
    memory.had_rows |= {name for name, table in before.tables.items() if table.holds_rows}
    found: list[Loss] = []
    for name, old in before.tables.items():
        if name not in memory.created and name in memory.had_rows:
            found += _of_table(name, old, after, moves, memory, shrunk)
    _remember(after, moves, memory)
    return after, found


def follow(connection: Connection, statement: str, before: SqliteCatalogue, memory: RunMemory) -> None:
    """Follow the columns through a statement that is about to run."""
    memory.moves = moves = memory.moves or Moves(before)
    if moves.effect or _FOLLOWED.match(statement):
        on_sqlite(connection, lambda driver: moves.follow(driver, statement))


def set_savepoint(connection: Connection, memory: RunMemory) -> bool:
    """Begin a transaction that holds DDL, if there is none, and set the step's savepoint."""
    memory.moves = None
    memory.began = not on_sqlite(connection, lambda driver: driver.in_transaction)
    if memory.began:
        switch_foreign_keys_off(connection)
        _run(connection, "BEGIN IMMEDIATE")
    _run(connection, f"SAVEPOINT {_SAVEPOINT}")
    return True


def roll_back(connection: Connection) -> bool:
    """Undo the step; return False if its savepoint is gone."""
    try:
        _run(connection, f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
    except sqlite3.OperationalError:
        return False
    return True


def release_savepoint(connection: Connection, memory: RunMemory) -> None:
    """Release the savepoint; commit if the connection would have committed each statement."""
    _run(connection, f"RELEASE SAVEPOINT {_SAVEPOINT}")
    if memory.began and on_sqlite(connection, lambda driver: driver.isolation_level) is None:
        _run(connection, "COMMIT")


def prepare_statement(
    connection: Connection, statement: str, before: SqliteCatalogue, memory: RunMemory
) -> str | None:
    """Follow the statement; refuse to drop a table whose foreign keys would then act on rows of others."""
    follow(connection, statement, before, memory)
    return on_sqlite(connection, lambda driver: _acts_on_others(driver, statement))


def _acts_on_others(driver: sqlite3.Connection, statement: str) -> str | None:
    words = tokens(statement, "sqlite") if _DROPS.match(statement) else []
    if [token.keyword for token in words[:2]] != ["DROP", "TABLE"] or not _has_keys_on(driver):
        return None
    table, _ = name_at(words, 4 if words[2].keyword == "IF" else 2)
    others = ", ".join(name for (name,) in driver.execute(_REFERRING, (table,)))
    return KEYS_ARE_ON.format(table=table, others=others) if others else None


def _of_table(
    name: str,
    old: SqliteTable,
    after: SqliteCatalogue,
    moves: Moves,
    memory: RunMemory,
    shrunk: Collection[str],
) -> Iterator[Loss]:
    now = [after.tables[each] for each in {name, moves.names[name]} & after.tables.keys()]
    columns = [column for column in old.columns if (name, column) not in memory.created]
    left = {column: moves.losses_of((name, column), after) for column in columns}
    if not now or (columns and not any(left.values())):
        yield Loss(LossKind.TABLE, old.name)
        return
    # Rows of the ledger and of Alembic's version table come and go.
    is_kept = name.startswith(f"{SCHEMA}_") or old.columns.keys() == {"version_num"}
    is_emptied = old.holds_rows and not any(table.holds_rows for table in now)
    if not is_kept and (is_emptied or name in shrunk):
        yield Loss(LossKind.ROWS, old.name)
    for column, lost in left.items():
        if not lost:
            is_archived = moves.is_archived((name, column), after)
            yield Loss(LossKind.COLUMN, f"{old.name}.{column}", is_archived=is_archived)
        elif all(lost):
            yield Loss(LossKind.VALUES, f"{old.name}.{column}", detail=lost[0])


def _remember(after: SqliteCatalogue, moves: Moves, memory: RunMemory) -> None:
    """Keep what this run has created: tables, and columns of older tables, that hold no older values."""
    created: set[object] = set()
    for name, table in after.tables.items():
        columns = moves.held.get(name, {})
        older = {
            column: [
                origin[0]
                for origin in columns.get(column, ())
                if memory.created.isdisjoint((origin, origin[0]))
            ]
            for column in table.columns
        }
        origins = {origin for each in older.values() for origin in each}
        created |= {(name, column) for column, each in older.items() if not each} if origins else {name}
        memory.had_rows |= {name} if origins & memory.had_rows else set()
    memory.created = created


def _read(driver: sqlite3.Connection) -> SqliteCatalogue:
    tables = {}
    for (name,) in driver.execute(_TABLES).fetchall():
        tables[name.lower()] = SqliteTable(name, columns_of(driver, name), _holds_rows(driver, name))
    return SqliteCatalogue(schema_version(driver), tables)


def _holds_rows(driver: sqlite3.Connection, table: str) -> bool:
    try:
        return bool(driver.execute(f"SELECT EXISTS (SELECT 1 FROM {sql.quoted(table)})").fetchone()[0])
    except sqlite3.Error:  # a virtual table without its module
        return True


def _has_keys_on(driver: sqlite3.Connection) -> bool:
    return bool(driver.execute("PRAGMA foreign_keys").fetchone()[0])


def _run(connection: Connection, statement: str) -> None:
    def run(driver: sqlite3.Connection) -> None:
        driver.execute(statement)

    on_sqlite(connection, run)
