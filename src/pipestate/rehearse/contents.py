"""Contents of a database: the definition of every object, and a digest of each table's rows.

All is read in one snapshot. The ledger, archives and version tables are left out: they count the runs.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import URL, Connection

from pipestate.database import connections as db
from pipestate.database.connections import choose, engine_of, run_own
from pipestate.database.queries import named_query
from pipestate.ledger.drift import read_definitions

HIDDEN_NUMBER = re.compile(r"\b_pipestate_[0-9]+_")  # differs in every contract
COLUMNS = named_query("rehearse", "table_columns")
DETAILS = named_query("rehearse", "details")
POSITIONS = named_query("rehearse", "sequence_positions")


@dataclass(frozen=True, slots=True)
class Digest:
    """The number of a table's rows, and a hash that is independent of their order."""

    rows: int
    hash: str


@dataclass(frozen=True, slots=True)
class Contents:
    """The definitions and the digests of a database, by name."""

    definitions: Mapping[str, str]
    digests: Mapping[str, Digest]
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of sequences, with increments


def read_contents(url: URL) -> Contents:
    """Read a whole database in one snapshot."""
    with db.reader(url) as connection:
        definitions = read_definitions(connection)
        digests = dict(choose(DIGESTS, connection)(connection))
        positions: dict[str, tuple[int, int]] = {}
        if not engine_of(url).IS_FILE:
            definitions |= {str(name): str(detail) for name, detail in _rows(connection, DETAILS)}
            positions = {name: (value, step) for name, value, step in run_own(connection, POSITIONS)}
    versions = tuple(_version_tables(definitions))
    return Contents(
        {
            name: HIDDEN_NUMBER.sub("_pipestate_", each)
            for name, each in definitions.items()
            if not _is_of(name, versions)
        },
        {name: each for name, each in digests.items() if name not in versions},
        positions,
    )


def _rows(connection: Connection, query: str) -> Sequence[Any]:
    return connection.exec_driver_sql(query, execution_options={"no_parameters": True}).all()


def _version_tables(definitions: Mapping[str, str]) -> Iterator[str]:
    """Find the tables with `version_num` as their only column: Alembic makes one, and leaves it behind."""
    columns = [name.removeprefix("column ") for name in definitions if name.startswith("column ")]
    for table in (name.removesuffix(".version_num") for name in columns if name.endswith(".version_num")):
        if sum(name.startswith(f"{table}.") for name in columns) == 1:
            yield table


def _is_of(name: str, tables: Sequence[str]) -> bool:
    kind, _, named = name.partition(" ")
    keys = [f"{table}{end}" for table in tables for end in ("_pkc", "_pkey")]
    return (kind == "index" and named in keys) or any(
        named == table or named.startswith(f"{table}.") for table in tables
    )


def differences(before: Contents, after: Contents, *, rows: bool = True) -> Iterator[str]:
    """Name missing, new and different objects; with `rows`, also rows, and sequences that are behind.

    A sequence that is ahead has skipped numbers, which any rollback does.
    """
    for name in sorted(before.definitions.keys() | after.definitions.keys()):
        was, now = before.definitions.get(name), after.definitions.get(name)
        if now is None:
            yield f"{name} is gone"
        elif was is None:
            yield f"{name} is new"
        elif was != now:
            yield f"{name} was {short(was)}, is {short(now)}"
    for name in sorted(before.digests.keys() & after.digests.keys()):
        old, new = before.digests[name], after.digests[name]
        if old.rows != new.rows:
            yield f"table {name} had {old.rows:,} rows, has {new.rows:,}"
        elif rows and old.hash != new.hash:
            yield f"table {name} has as many rows, but different ones"
    for name, (last, step) in sorted(before.positions.items()) if rows else ():
        found = after.positions.get(name)
        if f"sequence {name}" in after.definitions and (found is None or (last - found[0]) * step > 0):
            yield f"sequence {name} was at {last:,}, is at {f'{found[0]:,}' if found else 'its start'}"


def short(definition: str) -> str:
    line = " ".join(definition.split())
    return f"`{line if len(line) <= 60 else line[:59] + '…'}`"


def _on_postgresql(connection: Connection) -> Iterator[tuple[str, Digest]]:
    for quoted, name, columns in run_own(connection, COLUMNS):
        row = f"hashtextextended(ROW({columns})::text, 0)::numeric" if columns else "0"
        query = f"SELECT count(*), coalesce(sum({row}), 0)::text FROM ONLY {quoted}"
        ((count, total),) = _rows(connection, query)
        yield str(name), Digest(count, str(total))


def _on_sqlite(connection: Connection) -> Iterator[tuple[str, Digest]]:
    tables = connection.exec_driver_sql(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' "
        "AND substr(name, 1, 10) <> 'pipestate_' ORDER BY 1"
    )
    for (name,) in tables.all():
        found = connection.exec_driver_sql('SELECT * FROM "{}"'.format(str(name).replace('"', '""')))
        columns = sorted(range(len(found.keys())), key=lambda number: list(found.keys())[number])
        rows = total = 0
        for row in found:
            rows += 1
            text = repr([row[number] for number in columns]).encode()
            total += int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
        yield str(name), Digest(rows, str(total))


DIGESTS = {"postgresql": _on_postgresql, "sqlite": _on_sqlite}
