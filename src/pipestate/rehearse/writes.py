"""Test writes on the clone: one UPDATE, INSERT and DELETE of a sampled row of each table.

They run before and after the pending revisions, each in a transaction that is rolled back. The second time, the
same values are written to the remaining columns, as today's code would. A table is written as the clone's role, as
its owner, and as roles that may write to it or have a policy on it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import DBAPIError

from pipestate.database import connections as db
from pipestate.database.drivers import message, sqlstate
from pipestate.rehearse.clone import HIDDEN_COLUMN, Table
from pipestate.rehearse.copying.snapshot import quoted

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
ACTS = ("UPDATE", "INSERT", "DELETE")
LONGEST = "SET LOCAL statement_timeout = '10s'; SET LOCAL lock_timeout = '5s'"
# Another row has the key, or refers to it: earlier triggers and rules have run.
REACHED_THE_KEYS = frozenset(("23503", "23505", "23P01"))
Write = tuple[str, str, str | None]  # table, operation and role


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
        table.name, table.quoted, relation.key, dict(zip(names, found[0], strict=False)), (own, *others)
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


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """One write: the number of rows written, or the server's error."""

    rows: int = 0
    error: str | None = None
    sqlstate: str | None = None


@dataclass(frozen=True, slots=True)
class BrokenWrite:
    """A write that worked before the revisions and fails after them; `roles` is empty for the clone's own."""

    table: str
    act: str
    error: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Writes:
    """The result: the number of tables tried, tables without a row, broken writes."""

    tried: int = 0
    empty: tuple[str, ...] = ()
    broken: tuple[BrokenWrite, ...] = ()


Outcomes = Mapping[Write, WriteOutcome]


@dataclass(frozen=True, slots=True)
class Before:
    """The samples and outcomes before the revisions."""

    samples: tuple[Sample, ...] = ()
    empty: tuple[str, ...] = ()
    outcomes: Outcomes = field(default_factory=dict)


def try_before(clone: URL, tables: Sequence[Table]) -> Before:
    """Sample a row of each table, and try to write it."""
    samples: list[Sample] = []
    empty: list[str] = []
    outcomes: dict[Write, WriteOutcome] = {}
    with _connected(clone) as connection:
        relations, roles = read_relations(connection), read_roles(connection)
        for table in tables:
            relation = relations.get(table.quoted)
            if relation is None:
                continue
            with _rolled_back(connection):
                sample = sample_row(connection, table, relation, roles.get(table.oid, []))
                if sample is None:
                    empty.append(table.name)
                else:
                    samples.append(sample)
                    outcomes |= _try(connection, sample, relation)
    return Before(tuple(samples), tuple(empty), outcomes)


def try_after(clone: URL, before: Before) -> Writes:
    """Repeat the same writes on the remaining tables, and compare."""
    outcomes: dict[Write, WriteOutcome] = {}
    with _connected(clone) as connection:
        relations = read_relations(connection)
        for sample in before.samples:
            if sample.quoted in relations:
                with _rolled_back(connection):
                    outcomes |= _try(connection, sample, relations[sample.quoted])
    return Writes(len(before.samples), before.empty, tuple(find_broken(before.outcomes, outcomes)))


def find_broken(before: Outcomes, after: Outcomes) -> Iterator[BrokenWrite]:
    """List writes that worked before and fail after; roles are named if the clone's own role succeeds."""
    found: dict[tuple[str, str, str], list[str | None]] = {}
    for (table, act, role), now in after.items():
        was = before.get((table, act, role))
        if was is not None and is_broken(was, now):
            error = now.error or f"it writes no row any more, before it wrote {was.rows}"
            found.setdefault((table, act, error), []).append(role)
    for (table, act, error), roles in found.items():
        named = () if None in roles else tuple(role for role in roles if role is not None)
        yield BrokenWrite(table, act, error, named)


def is_broken(was: WriteOutcome, now: WriteOutcome) -> bool:
    """Tell whether a write worked before and fails now.

    A write that reached a key or a foreign key counts as tried up to there.

    >>> is_broken(WriteOutcome(1), WriteOutcome(0)), is_broken(WriteOutcome(0, "x", "23503"), WriteOutcome(0, "y", "42703"))
    (True, True)
    >>> is_broken(WriteOutcome(0, "x", "42501"), WriteOutcome(0, "y", "42703")), is_broken(WriteOutcome(1), WriteOutcome(2))
    (False, False)
    """
    if was.error is None:
        return now.error is not None or now.rows < was.rows
    return was.sqlstate in REACHED_THE_KEYS and now.error is not None and now.sqlstate not in REACHED_THE_KEYS


@contextmanager
def _connected(clone: URL) -> Iterator[Connection]:
    with db.reachable(clone), db.engine_for(clone).connect() as plain:
        yield plain.execution_options(isolation_level="AUTOCOMMIT")


@contextmanager
def _rolled_back(connection: Connection) -> Iterator[None]:
    run(connection, "BEGIN", LONGEST)
    try:
        yield
    finally:
        run(connection, "ROLLBACK")


def _try(connection: Connection, sample: Sample, relation: WrittenTable) -> Outcomes:
    """Try the three writes as each role."""
    row = find_row(connection, sample, relation)
    return {
        (sample.name, act, writer.role): _outcome(connection, sample, writer, act, row, relation.names)
        for writer in sample.writers
        for act in ACTS
        if row is not None or act == "INSERT"
    }


def _outcome(
    connection: Connection, sample: Sample, writer: Writer, act: str, row: str | None, columns: Sequence[str]
) -> WriteOutcome:
    run(connection, "SAVEPOINT pipestate_write")
    try:
        if act == "INSERT" and row is not None:
            _make_room(connection, sample, row)
        if writer.role is not None:
            run(connection, f"SET LOCAL ROLE {writer.role}")
        statement = _statement(sample, writer, act, row, columns)
        rows = connection.exec_driver_sql(statement, execution_options={"no_parameters": True}).rowcount
        run(connection, "SET CONSTRAINTS ALL IMMEDIATE")
        return WriteOutcome(rows)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return WriteOutcome(0, _said(error), sqlstate(error))
    finally:
        run(connection, "ROLLBACK TO SAVEPOINT pipestate_write")


def _statement(sample: Sample, writer: Writer, act: str, row: str | None, columns: Sequence[str]) -> str:
    if act == "DELETE":
        return f"DELETE FROM {sample.quoted} WHERE {row}"
    if act == "UPDATE":
        names = [name for name in writer.updates if name in columns] or list(columns[:1])
        return f"UPDATE {sample.quoted} SET {', '.join(f'{name} = {name}' for name in names)} WHERE {row}"
    names = [name for name in writer.inserts if name in columns]
    if not names:
        return f"INSERT INTO {sample.quoted} DEFAULT VALUES"
    values = ", ".join(literal(sample.values[name]) for name in names)
    return f"INSERT INTO {sample.quoted} ({', '.join(names)}) OVERRIDING SYSTEM VALUE VALUES ({values})"


def _make_room(connection: Connection, sample: Sample, row: str) -> None:
    """Delete the sampled row, so that its copy can reuse the keys; skip triggers if the role may."""
    delete = f"DELETE FROM {sample.quoted} WHERE {row}"
    silently = (
        "SET LOCAL session_replication_role = replica",
        delete,
        "SET LOCAL session_replication_role = origin",
    )
    for statements in (silently, (delete,)):
        run(connection, "SAVEPOINT pipestate_room")
        with suppress(DBAPIError):
            return run(connection, *statements)
        run(connection, "ROLLBACK TO SAVEPOINT pipestate_room")
    return None


def _said(error: DBAPIError) -> str:
    """Return the server's error and its origin, on one line."""
    context = getattr(getattr(error.orig, "diag", None), "context", None) or ""
    where = [line for line in context.splitlines() if line.startswith("PL/") and " function " in line]
    return f"{message(error).partition(chr(10))[0]}{f' ({where[0]})' if where else ''}"
