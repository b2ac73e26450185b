"""PostgreSQL: the tables of a database, as the guard compares them."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pipestate.ledger.functions import body_of
from pipestate.migration import sql

QUERY = re.sub(r"\bschemas\b", "NULL::text[]", body_of("catalogue"))


def query_for(oids: Collection[int]) -> str:
    """Write the query for these tables alone, with all domains and extensions."""
    written = ", ".join(map(str, oids))
    return f"SELECT * FROM ({QUERY}) AS c WHERE kind IN ('d', 'x') OR oid IN ({written})"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column; `filled` means that a constant default supplies the value of older rows."""

    number: int
    type: tuple[int, int]
    filled: bool
    name: str


@dataclass(frozen=True)
class ComparedTable:
    """A row of the catalogue's query."""

    oid: int
    kind: str
    schema: str
    name: str
    filenode: int
    rows: float
    bytes: int
    parent: int
    extension: int
    rowtype: int
    written: str

    @property
    def known_as(self) -> str:
        """The usual name: without the default schema."""
        return self.name if self.schema == "public" else f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        return f"{sql.quoted(self.schema)}.{sql.quoted(self.name)}"

    @cached_property
    def columns(self) -> dict[int, TableColumn]:
        found = {}
        for line in self.written.splitlines():
            number, type_, modifier, filled, name = line.split(" ", 4)
            found[int(number)] = TableColumn(int(number), (int(type_), int(modifier)), filled == "1", name)
        return found

    @cached_property
    def by_name(self) -> dict[str, TableColumn]:
        return {column.name: column for column in self.columns.values()}


@dataclass(frozen=True)
class Catalogue:
    """All tables by their oid, the domains, and the extensions."""

    tables: dict[int, ComparedTable]
    domains: dict[int, tuple[int, int]] = field(default_factory=dict)
    extensions: frozenset[int] = frozenset()
    outside: dict[int, str] = field(default_factory=dict)  # names of tables outside a tenant's schemas
    emptied: frozenset[int] = frozenset()  # tables that this transaction has emptied with DELETE

    @cached_property
    def by_name(self) -> dict[tuple[str, str], ComparedTable]:
        return {(each.schema, each.name): each for each in self.tables.values() if each.kind != "c"}

    @cached_property
    def partitions(self) -> dict[int, list[ComparedTable]]:
        found: dict[int, list[ComparedTable]] = {}
        for each in self.tables.values():
            if each.parent:
                found.setdefault(each.parent, []).append(each)
        return found

    def below_domains(self, type_: tuple[int, int]) -> tuple[int, int]:
        """Find the base type of a domain."""
        while type_[0] in self.domains:
            type_ = self.domains[type_[0]]
        return type_

    def leaves(self, table: ComparedTable) -> Iterator[ComparedTable]:
        """List the table, or the partitions below it that hold its rows."""
        if table.kind != "p":
            yield table
        for part in self.partitions.get(table.oid, ()):
            yield from self.leaves(part)

    def rows(self, table: ComparedTable) -> int | None:
        """Sum the planner's estimates; return None before the first estimate."""
        known = [leaf.rows for leaf in self.leaves(table) if leaf.rows > 0]
        return round(sum(known)) if known else None

    def root(self, table: ComparedTable) -> ComparedTable:
        while table.parent in self.tables:
            table = self.tables[table.parent]
        return table


def make_catalogue(rows: Iterable[tuple[Any, ...]]) -> Catalogue:
    """Make a catalogue from the query's rows."""
    tables, domains, extensions = {}, {}, set()
    for row in rows:
        if row[1] == "d":
            domains[row[0]] = (int(row[7]), int(row[4]))
        elif row[1] == "x":
            extensions.add(row[0])
        else:
            tables[row[0]] = ComparedTable(*row)
    return Catalogue(tables, domains, frozenset(extensions))


def type_change(old: tuple[int, int], new: tuple[int, int], *, by_hand: bool) -> str:
    """Write the query that names a type change, and says whether it can lose silently, by functions of the
    ledger.

    PostgreSQL refuses a longer text in a shorter type, unless the statement casts by hand (`USING`).
    """
    element = body_of("element_type")
    return f"""SELECT concat(format_type(old, old_modifier), ' becomes ',
    format_type(new, new_modifier)), ({body_of("loses")})
FROM (SELECT (SELECT ({element}) FROM (SELECT {old[0]}::oid AS type) AS o)::regtype AS old,
    {old[1]} AS old_modifier, (SELECT ({element}) FROM (SELECT {new[0]}::oid AS type) AS n)::regtype AS new,
    {new[1]} AS new_modifier, {by_hand} AS by_hand) AS change"""
