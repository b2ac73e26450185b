"""What is in a database: the definition of every object, and for every table a digest of its rows.

Read in one snapshot. What pipestate keeps for itself (the ledger, archives) and version tables are left out: they say
how often something was done.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import URL, Connection

from pipestate import db
from pipestate.engines.choice import choose
from pipestate.rehearse.definitions import read_definitions

COLUMNS = (
    "SELECT format('%I.%I', n.nspname, c.relname), "
    "CASE WHEN n.nspname = 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END, "
    "coalesce(string_agg(quote_ident(a.attname), ', ' ORDER BY a.attname), '') "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
    "WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname NOT LIKE 'pg\\_%' "
    "AND n.nspname NOT IN ('information_schema', 'pipestate') AND n.nspname NOT LIKE 'pipestate\\_archive%' GROUP BY 1, 2 ORDER BY 2"
)


@dataclass(frozen=True, slots=True)
class Digest:
    """How many rows a table has, and a number that does not depend on their order."""

    rows: int
    hash: str


@dataclass(frozen=True, slots=True)
class Contents:
    """The definitions and the digests of a database, by name."""

    definitions: Mapping[str, str]
    digests: Mapping[str, Digest]


def read_contents(url: URL) -> Contents:
    """Read all of a database in one snapshot."""
    with db.reader(url) as connection:
        definitions = read_definitions(connection)
        digests = dict(choose(DIGESTS, connection)(connection))
    versions = tuple(_version_tables(definitions))
    return Contents(
        {name: each for name, each in definitions.items() if not _is_of(name, versions)},
        {name: each for name, each in digests.items() if name not in versions},
    )


def _version_tables(definitions: Mapping[str, str]) -> Iterator[str]:
    """Find the tables that have a `version_num` and nothing else: Alembic makes one, and leaves it behind."""
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
    """Name what is gone, what is new and what is another; with `rows`, also tables whose rows are others."""
    for name, was, now in changed(before.definitions, after.definitions):
        if now is None:
            yield f"{name} is gone"
        elif was is None:
            yield f"{name} is new"
        else:
            yield f"{name} was {short(was)}, is {short(now)}"
    for name in sorted(before.digests.keys() & after.digests.keys()):
        old, new = before.digests[name], after.digests[name]
        if old.rows != new.rows:
            yield f"table {name} had {old.rows:,} rows, has {new.rows:,}"
        elif rows and old.hash != new.hash:
            yield f"table {name} has as many rows, and others"


def changed(
    before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[tuple[str, str | None, str | None]]:
    """List the objects that differ, by name, each with its definition in the one and in the other."""
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name), after.get(name)
        if was != now:
            yield name, was, now


def short(definition: str) -> str:
    line = " ".join(definition.split())
    return f"`{line if len(line) <= 60 else line[:59] + '…'}`"


def _on_postgresql(connection: Connection) -> Iterator[tuple[str, Digest]]:
    for quoted, name, columns in connection.exec_driver_sql(
        COLUMNS, execution_options={"no_parameters": True}
    ).all():
        row = f"hashtextextended(ROW({columns})::text, 0)::numeric" if columns else "0"
        count, total = connection.exec_driver_sql(
            f"SELECT count(*), coalesce(sum({row}), 0)::text FROM ONLY {quoted}",
            execution_options={"no_parameters": True},
        ).one()
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
