"""Sampled rows: the row of each table that is written on the clone, and its writers, from the catalogue.

A table is written as the clone's role, as its owner, and as roles that may write to it or have a policy on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from pipestate.rehearse.clone import HIDDEN_COLUMN, Table
from pipestate.rehearse.copying.session import quoted

# Partitions are written through their parent table; archives are read-only.
RELATIONS = text(
    "SELECT c.oid::int8 AS oid, format('%I.%I', n.nspname, c.relname) AS quoted, c.relkind IN ('r', 'p') AS has_places, "
    "coalesce((SELECT array_agg(quote_ident(a.attname) ORDER BY k.place) FROM pg_catalog.pg_index i "
    "CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place) "
    "JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number WHERE i.indrelid = c.oid AND i.indisprimary), "
    "'{}') AS key "
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v') "
    "AND c.relpersistence <> 't' AND NOT c.relispartition AND n.nspname NOT LIKE 'pg\\_%' "
    "AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pipestate\\_archive%'"
)
COLUMNS = text(
    "SELECT a.attrelid::int8 AS oid, quote_ident(a.attname) AS name, a.attgenerated <> '' AS is_generated, "
    "a.attidentity = 'a' AS is_identity FROM pg_catalog.pg_attribute a WHERE a.attnum > 0 AND NOT a.attisdropped "
    f"AND a.attname !~ '{HIDDEN_COLUMN}' AND a.attrelid >= 16384 ORDER BY a.attrelid, a.attnum"
)
ROLES = (
    "SELECT found.oid::int8 AS oid, quote_ident(r.rolname) AS name, "
    "array(SELECT quote_ident(a.attname) FROM pg_catalog.pg_attribute a WHERE a.attrelid = found.oid AND a.attnum > 0 "
    "AND NOT a.attisdropped AND has_column_privilege(r.oid, found.oid, a.attnum, 'UPDATE')) AS updates, "
    "array(SELECT quote_ident(a.attname) FROM pg_catalog.pg_attribute a WHERE a.attrelid = found.oid AND a.attnum > 0 "
    "AND NOT a.attisdropped AND has_column_privilege(r.oid, found.oid, a.attnum, 'INSERT')) AS inserts "
    "FROM (SELECT c.oid, c.relowner AS role FROM pg_catalog.pg_class c WHERE c.oid >= 16384 "
    "UNION SELECT c.oid, acl.grantee FROM pg_catalog.pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) AS acl "
    "WHERE c.oid >= 16384 AND acl.privilege_type IN ('INSERT', 'UPDATE', 'DELETE') "
    "UNION SELECT p.polrelid, unnest(p.polroles) FROM pg_catalog.pg_policy p) AS found "
    "JOIN pg_catalog.pg_class c ON c.oid = found.oid AND c.relkind IN ('r', 'p') AND NOT c.relispartition "
    "JOIN pg_catalog.pg_roles r ON r.oid = found.role WHERE NOT r.rolsuper AND r.rolname <> current_user "
    "AND pg_has_role(r.oid, '{membership}') ORDER BY 1, 2"
)
HAS_SET_OPTION = (16,)  # since this version, a member may lack the right to SET ROLE


@dataclass(frozen=True, slots=True)
class Writer:
    """A writing role, None for the clone's own, and the columns that it may write."""

    role: str | None
    updates: tuple[str, ...]
    inserts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """A table, a row of it as text, and its writers."""

    name: str
    quoted: str
    key: tuple[str, ...]
    values: Mapping[str, str | None]
    writers: tuple[Writer, ...]


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table or view in its present shape: columns, primary key, and whether its rows have a `ctid`."""

    oid: int
    has_places: bool
    key: tuple[str, ...]
    columns: tuple[Any, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.columns)


def read_relations(connection: Connection) -> dict[str, WrittenTable]:
    """Read the writable tables and views, by their name in SQL."""
    columns: dict[int, list[Any]] = {}
    for row in connection.execute(COLUMNS):
        columns.setdefault(row.oid, []).append(row)
    return {
        row.quoted: WrittenTable(row.oid, row.has_places, tuple(row.key), tuple(columns.get(row.oid, ())))
        for row in connection.execute(RELATIONS)
    }


def read_roles(connection: Connection) -> dict[int, list[Writer]]:
    """Read the other roles that may write to each table, if our role may act as them."""
    version = connection.dialect.server_version_info or ()
    membership = "SET" if version >= HAS_SET_OPTION else "MEMBER"
    found: dict[int, list[Writer]] = {}
    for row in connection.execute(text(ROLES.format(membership=membership))):
        writer = Writer(row.name, tuple(row.updates), tuple(row.inserts))
        found.setdefault(row.oid, []).append(writer)
    return found


def sample_row(
    connection: Connection, table: Table, relation: WrittenTable, roles: Sequence[Writer]
) -> Sample | None:
    """Read the newest row by the primary key, or any row; None for an empty table."""
    names = [each.name for each in relation.columns if not each.is_generated]
    order = f" ORDER BY {', '.join(f'{name} DESC' for name in relation.key)}" if relation.key else ""
    values = ", ".join(f"{name}::text" for name in names) or "NULL"
    found = ask(connection, f"SELECT {values} FROM {table.quoted}{order} LIMIT 1")
    if not found:
        return None
    updates = tuple(each.name for each in relation.columns if not each.is_generated and not each.is_identity)
    own = Writer(None, updates, tuple(names))
    others = [
        Writer(
            each.role,
            tuple(name for name in updates if name in each.updates),
            tuple(name for name in names if name in each.inserts),
        )
        for each in roles
    ]
    return Sample(
        table.name,
        table.quoted,
        relation.key,
        dict(zip(names, found[0], strict=False)),
        (own, *others),
    )


def find_row(connection: Connection, sample: Sample, relation: WrittenTable) -> str | None:
    """Find the sampled row by its key, else any row of the table; return the condition that finds it."""
    if sample.key and all(name in relation.names and name in sample.values for name in sample.key):
        by_key = " AND ".join(f"{name} = {literal(sample.values[name])}" for name in sample.key)
        if ask(connection, f"SELECT 1 FROM {sample.quoted} WHERE {by_key}"):
            return by_key
    if not relation.has_places:
        return None
    found = ask(connection, f"SELECT tableoid::text, ctid::text FROM {sample.quoted} LIMIT 1")
    return f"tableoid = {found[0][0]} AND ctid = {quoted(found[0][1])}" if found else None


def ask(connection: Connection, query: str) -> list[Any]:
    """Run a query inside the transaction; return its rows, or an empty list if the server refuses it."""
    run(connection, "SAVEPOINT pipestate_query")
    try:
        return list(connection.exec_driver_sql(query, execution_options={"no_parameters": True}))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        run(connection, "ROLLBACK TO SAVEPOINT pipestate_query")
        return []


def literal(value: str | None) -> str:
    return "NULL" if value is None else quoted(value)


def run(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
