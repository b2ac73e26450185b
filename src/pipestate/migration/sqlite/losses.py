"""SQLite: the tables before and after a step, the losses between them, and the step's savepoint.

A table has no number here that outlives a copy, so renamings and copies are read from the statements.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from secrets import token_hex

from sqlalchemy import Connection

from pipestate.database.drivers import on_sqlite
from pipestate.ledger.tables import SCHEMA
from pipestate.migration import sql
from pipestate.migration.losses import Loss, LossKind, RunMemory
from pipestate.runbook.statement import Token, tokens

_SAVEPOINT = f"pipestate_step_{token_hex(4)}"  # no revision sets one of this name
_TABLES = r"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'"
_COLUMNS = "SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden NOT IN (2, 3)"
_KEYS_OFF = re.compile(r"(?i)\s*PRAGMA\s+(?:\w+\.)?foreign_keys\s*(?:=|\()\s*['\"]?(off|0|false|no)\b")
KEYS_STAY_ON = (
    "turns foreign_keys off after its first change, where SQLite ignores it, and a rebuilt table would "
    "delete rows of others: turn them off in env.py, or in the first statement"
)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table by the names of its columns, in lower case, with their declared types."""

    name: str
    columns: dict[str, str]
    holds_rows: bool


@dataclass(frozen=True, slots=True)
class _Catalogue:
    """The tables by their names in lower case; `version` changes with every change of the schema."""

    version: int
    tables: dict[str, _Table]


def read_catalogue(connection: Connection) -> _Catalogue:
    """Read all tables, and whether they hold a row."""
    return on_sqlite(connection, _read)


def compare(
    connection: Connection, before: _Catalogue, memory: RunMemory, statements: Sequence[str]
) -> tuple[_Catalogue, list[Loss]]:
    """Compare the tables by their names, and follow those that a statement renames or copies."""
    after = read_catalogue(connection)
    memory.held |= {name for name, table in before.tables.items() if table.holds_rows}
    moves = _Moves({name: name for name in before.tables})
    for statement in statements if after.version != before.version else ():
        moves.follow([token for token in tokens(statement, "sqlite") if token.kind != "number"])
    found: list[Loss] = []
    for name, old in before.tables.items():
        if name in memory.created or name not in memory.held:
            continue
        new = after.tables.get(moves.names[name]) or after.tables.get(name)
        found += [Loss(LossKind.TABLE, old.name)] if new is None else _of_table(old, new, moves, memory)
    _remember(before, after, moves, memory)
    return after, found


def set_savepoint(connection: Connection, memory: RunMemory) -> bool:
    """Begin a transaction that holds DDL, if there is none, and set the step's savepoint."""
    memory.began = not on_sqlite(connection, lambda driver: driver.in_transaction)
    if memory.began:
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
    connection: Connection, statement: str, before: _Catalogue, memory: RunMemory
) -> str | None:
    """Let a first statement turn foreign keys off, which has no effect in a transaction.

    Refuse a later one.
    """
    if not _KEYS_OFF.match(statement) or not memory.began:
        return None
    if not on_sqlite(connection, lambda driver: driver.execute("PRAGMA foreign_keys").fetchone()[0]):
        return None
    if on_sqlite(connection, _version) != before.version:
        return KEYS_STAY_ON
    _run(connection, "COMMIT")
    _run(connection, "PRAGMA foreign_keys = OFF")
    set_savepoint(connection, memory)
    return None


def _of_table(old: _Table, new: _Table, moves: "_Moves", memory: RunMemory) -> Iterator[Loss]:
    name = old.name.lower()
    is_kept = name.startswith(f"{SCHEMA}_") or old.columns.keys() == {
        "version_num"
    }  # the ledger, Alembic's table
    if old.holds_rows and not new.holds_rows and not is_kept:
        yield Loss(LossKind.ROWS, old.name)
    for column, type_ in old.columns.items():
        if (name, column) in memory.created:
            continue
        renamed = moves.columns.get((name, column), column)
        if renamed in new.columns and moves.keeps(name, new.name.lower(), column):
            if _loses(type_, new.columns[renamed]):
                detail = f"{type_} becomes {new.columns[renamed]}"
                yield Loss(LossKind.VALUES, f"{old.name}.{column}", detail=detail)
        elif not moves.carries(name, new.name.lower(), column):
            yield Loss(LossKind.COLUMN, f"{old.name}.{column}")


def _remember(before: _Catalogue, after: _Catalogue, moves: "_Moves", memory: RunMemory) -> None:
    heirs = {moves.names[name]: name for name in before.tables if name not in memory.created}
    for name, table in after.tables.items():
        if name in heirs:
            memory.held |= {name} if heirs[name] in memory.held else set()
            old = before.tables[heirs[name]]
            known = {moves.columns.get((heirs[name], column), column) for column in old.columns}
            if not moves.carried(heirs[name], name):
                memory.created |= {(name, column) for column in table.columns if column not in known}
        elif name not in before.tables:
            memory.created.add(name)


# Classes of SQLite's declared types: a CAST between two of these classes may lose data, by `_LOST`.
_CLASSES = (
    ("moment", ("DATETIME", "TIMESTAMP")),
    ("date", ("DATE",)),
    ("time", ("TIME",)),
    ("integer", ("INT",)),
    ("text", ("CHAR", "CLOB", "TEXT", "JSON", "UUID", "ENUM")),
    ("real", ("REAL", "FLOA", "DOUB")),
    ("number", ("NUMERIC", "DECIMAL")),
)
_LOST = {
    "moment": {"date", "time", "integer", "real", "number"},
    "date": {"integer", "real", "number", "time"},
    "time": {"integer", "real", "number", "date"},
    "text": {"integer", "real", "number", "date", "time", "moment"},
    "real": {"integer"},
    "number": {"integer"},
}


def _loses(old: str, new: str) -> bool:
    """
    >>> _loses("TEXT", "INTEGER"), _loses("VARCHAR(20)", "TEXT"), _loses("DATETIME", "DATE")
    (True, False, True)
    """
    return _class_of(new) in _LOST.get(_class_of(old), ())


def _class_of(declared: str) -> str:
    upper = declared.upper()
    return next((name for name, parts in _CLASSES if any(part in upper for part in parts)), "")


_NO_NAME = ("INTO", "OR", "REPLACE", "IGNORE", "ABORT", "FAIL", "ROLLBACK", "IF", "NOT", "EXISTS", "TABLE")


@dataclass
class _Copy:
    """Rows of a table that were copied into another one: the columns that were read."""

    origin: str
    into: str
    columns: frozenset[str]


@dataclass
class _Moves:
    """Renamed and copied tables: `names` maps the old name of a table to its current one."""

    names: dict[str, str]
    columns: dict[tuple[str, str], str] = field(default_factory=dict)
    copies: list["_Copy"] = field(default_factory=list)
    dropped: set[tuple[str, str]] = field(default_factory=set)

    def follow(self, words: list[Token]) -> None:
        """Follow ALTER TABLE … RENAME, INSERT … SELECT, and note DROP COLUMN."""
        keywords = [token.keyword for token in words]
        if keywords[:2] == ["ALTER", "TABLE"] and "RENAME" in keywords[2:6]:
            at = keywords.index("RENAME")
            table, what = words[at - 1].identifier, [token.identifier for token in words[at + 1 :]]
            if what[:1] == ["to"]:
                self._rename(table, what[1])
            elif "to" in what:
                to = what.index("to")
                self._rename_column(table, what[to - 1], what[to + 1])
        elif keywords[:2] == ["ALTER", "TABLE"] and "DROP" in keywords[2:6]:
            table = words[keywords.index("DROP") - 1].identifier
            self.dropped |= {
                (origin, words[-1].identifier) for origin, now in self.names.items() if now == table
            }
        elif "SELECT" in keywords and (keywords[0] == "INSERT" or keywords[:2] == ["CREATE", "TABLE"]):
            read = {token.identifier or token.text for token in words[keywords.index("SELECT") :]}
            into = next((token.identifier for token in words[2:] if token.keyword not in _NO_NAME), "")
            for origin, now in self.names.items():
                if now in read and now != into:
                    self.copies.append(_Copy(origin, into, frozenset(read)))

    def carried(self, origin: str, to: str) -> frozenset[str]:
        """Return the columns copied from a table into the one that has its name now: `*` is every column."""
        return frozenset().union(
            *(each.columns for each in self.copies if (each.origin, each.into) == (origin, to))
        )

    def carries(self, origin: str, to: str, column: str) -> bool:
        """Say whether a column was copied into the table that has the name now."""
        return not self.carried(origin, to).isdisjoint({column, "*"})

    def keeps(self, origin: str, to: str, column: str) -> bool:
        """Say whether the column of that name holds the old values: a column dropped and added again does
        not."""
        if (origin, column) in self.dropped:
            return False
        return not self.carried(origin, to) or self.carries(origin, to, column)

    def _rename(self, table: str, to: str) -> None:
        for copy in self.copies:
            if copy.into == table:
                copy.into = to
        for origin, now in self.names.items():
            if now == table:
                self.names[origin] = to

    def _rename_column(self, table: str, column: str, to: str) -> None:
        for origin, now in self.names.items():
            if now == table:
                first = next(
                    (old for (of, old), new in self.columns.items() if of == origin and new == column), column
                )
                self.columns[origin, first] = to
                self.dropped.discard((origin, to))  # a copy that takes the name


def _read(driver: sqlite3.Connection) -> _Catalogue:
    tables = {}
    for (name,) in driver.execute(_TABLES).fetchall():
        columns = {column.lower(): type_ for column, type_ in driver.execute(_COLUMNS, (name,))}
        tables[name.lower()] = _Table(name, columns, _holds_rows(driver, name))
    return _Catalogue(_version(driver), tables)


def _holds_rows(driver: sqlite3.Connection, table: str) -> bool:
    try:
        return bool(driver.execute(f"SELECT EXISTS (SELECT 1 FROM {sql.quoted(table)})").fetchone()[0])
    except sqlite3.Error:  # a virtual table without its module
        return True


def _version(driver: sqlite3.Connection) -> int:
    return int(driver.execute("PRAGMA schema_version").fetchone()[0])


def _run(connection: Connection, statement: str) -> None:
    def run(driver: sqlite3.Connection) -> None:
        driver.execute(statement)

    on_sqlite(connection, run)
