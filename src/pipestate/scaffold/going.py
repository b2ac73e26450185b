"""What a contract takes away, as the command line names it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipestate.errors import ConfigError

_NAME = re.compile(r"[^\s.\"'\\]+")
TABLE = "[SCHEMA.]TABLE"
COLUMN = "[SCHEMA.]TABLE.COLUMN"


@dataclass(frozen=True, slots=True)
class Going:
    """Whole tables, and columns of tables that stay."""

    tables: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of tables and columns without what qualifies them."""
        tables = (table.rpartition(".")[2] for table in self.tables)
        return (*tables, *(column for columns in self.columns.values() for column in columns))

    def __str__(self) -> str:
        columns = (f"{table}.{column}" for table, columns in self.columns.items() for column in columns)
        return ", ".join([*self.tables, *columns])


def read_going(tables: Sequence[str], columns: Sequence[str]) -> Going:
    """Read the names; ConfigError where there is none, one stands twice, or one cannot be a name."""
    if not tables and not columns:
        raise ConfigError(f"nothing to drop: give --drop-table {TABLE} or --drop-column {COLUMN}")
    by_table: dict[str, tuple[str, ...]] = {}
    for given in columns:
        table, _, column = given.rpartition(".")
        _check("--drop-column", given, COLUMN, parts=(2, 3))
        if column in by_table.get(table, ()):
            raise ConfigError(f"--drop-column {given} is given twice: name it once")
        by_table[table] = (*by_table.get(table, ()), column)
    for table in tables:
        _check("--drop-table", table, TABLE, parts=(1, 2))
        if tables.count(table) > 1:
            raise ConfigError(f"--drop-table {table} is given twice: name it once")
        if table in by_table:
            raise ConfigError(f"{table} goes as a whole and by columns: name it once")
    return Going(tuple(tables), by_table)


def _check(option: str, given: str, form: str, *, parts: tuple[int, int]) -> None:
    names = given.split(".")
    fewest, most = parts
    if not fewest <= len(names) <= most or not all(map(_NAME.fullmatch, names)) or not given.isprintable():
        raise ConfigError(f"{option} {given}: write {form}")
