"""Columns on SQLite, followed through renamings and copies of their tables, statement by statement.

What cannot be followed is compared by its values, and else counts as lost.
"""

import sqlite3
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pipestate.ledger.tables import SCHEMA
from pipestate.migration import sql
from pipestate.runbook.statement import Token, tokens

_COLUMNS = "SELECT name, type FROM pragma_table_xinfo(?) WHERE hidden NOT IN (2, 3)"


@dataclass(frozen=True, slots=True)
class SqliteTable:
    """A table by the names of its columns, in lower case, with their declared types."""

    name: str
    columns: dict[str, str]
    holds_rows: bool


@dataclass(frozen=True, slots=True)
class SqliteCatalogue:
    """The tables by their names in lower case; `version` changes with every change of the schema."""

    version: int
    tables: dict[str, SqliteTable]


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


_Origin = tuple[str, str]  # table and column, at the beginning of the step
_Origins = dict[_Origin, str]  # where the values of a column come from, and what they have lost on the way
_COPY_ENDS = ("WHERE", "ORDER", "LIMIT")


@dataclass(frozen=True, slots=True)
class _Copy:
    """The copy of an INSERT … SELECT or CREATE TABLE … AS: the source, and per column its name and its cast."""

    source: str
    into: list[str]
    read: list[tuple[str, str]]


@dataclass
class Moves:
    """The columns of each table at this statement, in lower case, with the origins of their values.

    `names` maps the old name of a table to its current one, `rows` to its most rows before a DROP TABLE.
    """

    before: SqliteCatalogue
    names: dict[str, str] = field(init=False)
    held: dict[str, dict[str, _Origins]] = field(init=False)
    copied: set[tuple[str, str]] = field(default_factory=set)
    rows: dict[str, int] = field(default_factory=dict)
    saved: dict[str, Any] = field(default_factory=dict)
    effect: Callable[[], Any] | None = None  # of the last statement, if that succeeds
    mark: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        tables = self.before.tables
        self.names = {name: name for name in tables}
        self.held = {
            name: {column: {(name, column): ""} for column in table.columns} for name, table in tables.items()
        }

    def follow(self, driver: sqlite3.Connection, statement: str) -> None:
        """Follow a statement that is about to run."""
        self.settle(driver)
        words = [token for token in tokens(statement, "sqlite") if token.text != ";"]
        keywords = [token.keyword for token in words]
        match keywords[:2]:
            case ["SAVEPOINT", _]:
                self.saved[_identifier(words[1])] = deepcopy((self.names, self.held, self.copied, self.rows))
            case ["ROLLBACK", _] if _identifier(words[-1]) in self.saved:
                self.names, self.held, self.copied, self.rows = deepcopy(self.saved[_identifier(words[-1])])
            case ["ALTER", "TABLE"]:
                self.effect = self._alter(driver, words, keywords)
            case ["DROP", "TABLE"]:
                table, _ = name_at(words, 4 if keywords[2] == "IF" else 2)
                self._find_copies(driver, table)
                self.effect = partial(self._drop, table, _count(driver, table))
            case ["CREATE", _] if "TABLE" in keywords[:3]:
                at = keywords.index("TABLE") + 1
                table, at = name_at(words, at + 3 if keywords[at] == "IF" else at)
                self.effect = partial(self._create, driver, table, _read_copy(words[at:]))
            case ["INSERT" | "REPLACE", _] if "INTO" in keywords[:4]:
                table, at = name_at(words, keywords.index("INTO") + 1)
                if copy := _read_copy(words[at:]):
                    self.effect = partial(self._copy, driver, table, copy)
        self.mark = _mark(driver)

    def settle(self, driver: sqlite3.Connection) -> None:
        """Apply the effect of the last statement, unless that failed or copied no row."""
        effect, self.effect = self.effect, None
        if effect is not None and _mark(driver) != self.mark:
            effect()

    def losses_of(self, origin: _Origin, after: SqliteCatalogue) -> list[str]:
        """Say for each column that still holds the values, in the table's old or current name, what was lost."""
        return [
            origins[origin]
            for table in {origin[0], self.names[origin[0]]} & after.tables.keys()
            for column, origins in self.held.get(table, {}).items()
            if origin in origins and column in after.tables[table].columns
        ]

    def find_shrunk(self, driver: sqlite3.Connection) -> set[str]:
        """Find tables whose copy has less than half of the rows that they had at their drop."""
        return {
            name
            for name, rows in self.rows.items()
            if max(_count(driver, name), _count(driver, self.names[name])) < rows / 2
        }

    def is_archived(self, origin: _Origin, after: SqliteCatalogue) -> bool:
        """Say whether this step has copied the column into the archive, where a restore finds it."""
        copy = f"{SCHEMA}_archive_{origin[0]}_columns"
        return any(
            table.startswith(copy)
            and table in after.tables
            and any(not origins.get(origin, "lost") for origins in columns.values())
            for table, columns in self.held.items()
        )

    def _alter(
        self, driver: sqlite3.Connection, words: list[Token], keywords: list[str]
    ) -> Callable[[], Any] | None:
        table, at = name_at(words, 2)
        columns = self.held.setdefault(table, {})
        if keywords[at : at + 2] == ["RENAME", "TO"]:
            return partial(self._rename, table, name_at(words, at + 2)[0])
        if keywords[at] == "RENAME":
            old, new = _identifier(words[-3]), _identifier(words[-1])
            return lambda: columns.update({new: columns.pop(old, {})})
        if keywords[at] == "DROP":
            self._find_copies(driver, table, _identifier(words[-1]))
            return partial(columns.pop, _identifier(words[-1]), None)
        return None

    def _drop(self, table: str, rows: int) -> None:
        self.held.pop(table, None)
        for origin, now in self.names.items():
            if now == table:
                self.rows[origin] = max(rows, self.rows.get(origin, 0))

    def _rename(self, table: str, to: str) -> None:
        self.held[to] = self.held.pop(table, {})
        self.names |= {origin: to for origin, now in self.names.items() if now == table}
        self.copied = {pair for pair in self.copied if not {table, to}.intersection(pair)}

    def _create(self, driver: sqlite3.Connection, table: str, copy: _Copy | None) -> None:
        self.held[table] = {}
        if copy is not None:
            self._copy(driver, table, copy)

    def _copy(self, driver: sqlite3.Connection, into: str, copy: _Copy) -> None:
        """Give each column the origins of the one that was read for it."""
        source, types = self.held.get(copy.source, {}), columns_of(driver, into)
        every = [(name, "") for name in columns_of(driver, copy.source)]
        read = [each for item in copy.read for each in (every if item[0] == "*" else [item])]
        carried: dict[str, _Origins] = {}
        for name, (column, cast) in zip(copy.into or types, read, strict=False):
            for origin, lost in source.get(column, {}).items():
                type_ = self.before.tables[origin[0]].columns[origin[1]]
                lossy = next((now for now in (cast, types.get(name, "")) if _loses(type_, now)), "")
                carried.setdefault(name, {})[origin] = lost or (lossy and f"{type_} becomes {lossy}")
        target = self.held.setdefault(into, {})
        if (copy.source, into) in self.copied:  # earlier rows hold only what that copy carried
            for name, origins in carried.items():
                carried[name] = {each: lost for each, lost in origins.items() if each in target.get(name, {})}
            known = {origin for origins in source.values() for origin in origins}
            target |= {
                name: {o: lost for o, lost in own.items() if o not in known} for name, own in target.items()
            }
        self.copied.add((copy.source, into))
        target |= {name: target.get(name, {}) | origins for name, origins in carried.items()}

    def _find_copies(self, driver: sqlite3.Connection, table: str, column: str | None = None) -> None:
        """Find copies of a leaving table, or column, by values: an UPDATE or rows of Python may have filled them.

        A column with origins of its own is no copy.
        """
        source = self.held.get(table, {})
        known = {origin for origins in source.values() for origin in origins}
        for other in [table] if column else [each for each in self.held if each != table]:
            columns, names = self.held.get(other, {}), columns_of(driver, other)
            here = {origin for origins in columns.values() for origin in origins}
            if not here <= known:
                continue
            pairs = [
                (old, new)
                for old in source
                for new in names
                if not column
                and any(not lost and each in source[old] for each, lost in columns.get(new, {}).items())
            ]
            for old in [column] if column else list(source):
                if not source.get(old) or (not column and source[old].keys() <= here):
                    continue
                free = [name for name in names if not columns.get(name) and (column or pairs or name == old)]
                for new in sorted(free, key=lambda name: name != old):
                    if _is_copy(driver, table, other, [(old, new), *pairs]):
                        columns[new] = {**source[old]}
                        pairs += [] if column else [(old, new)]
                        break


def _read_copy(words: list[Token]) -> _Copy | None:
    """Read what follows the name of the table: columns and a SELECT of one table; None for any other text.

    >>> _read_copy(tokens("(a, b) SELECT x.id, CAST(note AS TEXT) AS b, 1 FROM items AS x WHERE a > 1", "sqlite"))
    _Copy(source='items', into=['a', 'b'], read=[('id', ''), ('note', 'TEXT'), ('', '')])
    >>> _read_copy(tokens("SELECT a.id FROM items a JOIN b", "sqlite"))
    """
    keywords = [token.keyword for token in words]
    if keywords.count("SELECT") != 1 or "FROM" not in keywords:
        return None
    select = keywords.index("SELECT")
    head = [token for token in words[:select] if token.text != ","]
    texts = [token.text for token in head]
    into = [_identifier(token) for token in head[texts.index("(") + 1 : -1]] if "(" in texts else []
    items: list[list[Token]] = [[]]
    depth, at = 0, select + 1
    while at < len(words) and (depth or keywords[at] != "FROM"):
        depth += (words[at].text == "(") - (words[at].text == ")")
        if words[at].text == "," and not depth:
            items.append([])
        else:
            items[-1].append(words[at])
        at += 1
    source, at = name_at(words, at + 1)
    at += 1 if keywords[at : at + 1] == ["AS"] else 0
    at += 1 if at < len(words) and keywords[at] not in _COPY_ENDS else 0  # an alias
    if at < len(words) and keywords[at] not in _COPY_ENDS:
        return None
    return _Copy(source, into, [_read_item(item) for item in items])


def _read_item(words: list[Token]) -> tuple[str, str]:
    """Return the column that an item of a SELECT is, and its cast; an empty name for any other expression."""
    texts = [token.text.upper() for token in words]
    if texts[-2:-1] == ["AS"]:
        words, texts = words[:-2], texts[:-2]
    elif len(words) > 1 and words[-1].identifier and (words[-2].identifier or texts[-2] == ")"):
        words, texts = words[:-1], texts[:-1]
    cast = ""
    if texts[:2] == ["CAST", "("] and texts[-1] == ")" and "AS" in texts:
        cast = " ".join(texts[texts.index("AS") + 1 : -1])
        words = words[2 : texts.index("AS")]
    if len(words) == 3 and words[1].text == ".":
        words = words[2:]
    if len(words) != 1:
        return "", cast
    return ("*" if words[0].text == "*" else words[0].identifier), cast


def name_at(words: list[Token], at: int) -> tuple[str, int]:
    """Read a name with or without its schema; return the position behind it."""
    if at + 2 < len(words) and words[at + 1].text == ".":
        at += 2
    return (_identifier(words[at]) if at < len(words) else ""), at + 1


def _identifier(token: Token) -> str:
    """Return a name in lower case; SQLite also takes one in single quotes."""
    return token.identifier or (token.text[1:-1].lower() if token.kind == "string" else "")


def _is_copy(driver: sqlite3.Connection, table: str, other: str, pairs: list[tuple[str, str]]) -> bool:
    """Say whether the other table, or the other column of this one, holds the values of each row."""
    here, there = ([sql.quoted(pair[side]) for pair in pairs] for side in (0, 1))
    old, new = sql.quoted(table), sql.quoted(other)
    if table == other:
        differs = f"SELECT 1 FROM {old} WHERE {here[0]} IS NOT {there[0]}"
    else:
        differs = f"SELECT {', '.join(here)} FROM {old} EXCEPT SELECT {', '.join(there)} FROM {new}"
    query = f"SELECT NOT EXISTS ({differs}) AND EXISTS (SELECT 1 FROM {old} WHERE {here[0]} IS NOT NULL)"
    try:
        return bool(driver.execute(query).fetchone()[0])
    except sqlite3.Error:
        return False


def _mark(driver: sqlite3.Connection) -> tuple[int, ...]:
    """Return numbers that change with either schema, and with each row that a statement writes."""
    of_temporary = driver.execute("PRAGMA temp.schema_version").fetchone()[0]
    return schema_version(driver), of_temporary, driver.total_changes


def _count(driver: sqlite3.Connection, table: str) -> int:
    try:
        return int(driver.execute(f"SELECT count(*) FROM {sql.quoted(table)}").fetchone()[0])
    except sqlite3.Error:  # it is gone, or a virtual table without its module
        return 0


def columns_of(driver: sqlite3.Connection, table: str) -> dict[str, str]:
    return {name.lower(): type_ for name, type_ in driver.execute(_COLUMNS, (table,))}


def schema_version(driver: sqlite3.Connection) -> int:
    return int(driver.execute("PRAGMA schema_version").fetchone()[0])
