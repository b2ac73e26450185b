"""Test writes on the clone: one UPDATE, INSERT and DELETE of a sampled row of each table.

They run before and after the pending revisions, each in a transaction that is rolled back. The second time, the
same values are written to the remaining columns, as today's code would. A table is written as the clone's role, as
its owner, and as roles that may write to it or have a policy on it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError

from pipestate.database.connections import autocommit, run_own, send
from pipestate.database.drivers import message, sqlstate
from pipestate.database.queries import named_query
from pipestate.rehearse.clone import Table
from pipestate.rehearse.copying.snapshot import quoted

RELATIONS = named_query("rehearse", "written_tables")
ACTS = ("UPDATE", "INSERT", "DELETE")
LONGEST = "SET LOCAL statement_timeout = '10s'; SET LOCAL lock_timeout = '5s'"
# Another row has the key, or refers to it: earlier triggers and rules have run.
REACHED_THE_KEYS = frozenset(("23503", "23505", "23P01"))
Write = tuple[str, str, str | None]  # table, operation and role


@dataclass(frozen=True, slots=True)
class WrittenTable:
    """A table or view: its key, and its columns that an INSERT and an UPDATE may name.

    `has_places` tells whether its rows have a `ctid`. `writers` are other roles that may write to it and that our
    role may act as, each with the columns that it may update and insert.
    """

    quoted: str
    has_places: bool
    key: Sequence[str]
    columns: Sequence[str]
    inserts: Sequence[str]
    updates: Sequence[str]
    writers: Sequence[tuple[str, Sequence[str], Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Sample:
    """A table before the revisions, and a row of it as text."""

    name: str
    table: WrittenTable
    values: Mapping[str, str | None]


def read_relations(connection: Connection) -> dict[str, WrittenTable]:
    """Read the writable tables and views, by their name in SQL."""
    return {row.quoted: WrittenTable(**row._mapping) for row in run_own(connection, RELATIONS)}


def sample_row(connection: Connection, name: str, table: WrittenTable) -> Sample | None:
    """Read the newest row by the primary key, or any row; None for an empty table."""
    order = f" ORDER BY {', '.join(f'{name} DESC' for name in table.key)}" if table.key else ""
    values = ", ".join(f"{name}::text" for name in table.inserts) or "NULL"
    found = fetch(connection, f"SELECT {values} FROM {table.quoted}{order} LIMIT 1")
    return Sample(name, table, dict(zip(table.inserts, found[0], strict=False))) if found else None


def find_row(connection: Connection, sample: Sample, now: WrittenTable) -> str | None:
    """Find the sampled row by its key, else any row of the table; return the condition that finds it."""
    key = sample.table.key
    if key and all(name in now.columns and name in sample.values for name in key):
        by_key = " AND ".join(f"{name} = {literal(sample.values[name])}" for name in key)
        if fetch(connection, f"SELECT 1 FROM {now.quoted} WHERE {by_key}"):
            return by_key
    if not now.has_places:
        return None
    found = fetch(connection, f"SELECT tableoid::text, ctid::text FROM {now.quoted} LIMIT 1")
    return f"tableoid = {found[0][0]} AND ctid = {quoted(found[0][1])}" if found else None


def fetch(connection: Connection, query: str) -> list[Any]:
    """Run a query inside the transaction; return its rows, or an empty list if the server refuses it."""
    send(connection, "SAVEPOINT pipestate_query")
    try:
        return list(connection.exec_driver_sql(query, execution_options={"no_parameters": True}))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        send(connection, "ROLLBACK TO SAVEPOINT pipestate_query")
        return []


def literal(value: str | None) -> str:
    return "NULL" if value is None else quoted(value)


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
    with autocommit(clone) as connection:
        relations = read_relations(connection)
        for table in (each for each in tables if each.quoted in relations):
            with _rolled_back(connection):
                sample = sample_row(connection, table.name, relations[table.quoted])
                if sample is None:
                    empty.append(table.name)
                else:
                    samples.append(sample)
                    outcomes |= _try(connection, sample, sample.table)
    return Before(tuple(samples), tuple(empty), outcomes)


def try_after(clone: URL, before: Before) -> Writes:
    """Repeat the same writes on the remaining tables, and compare."""
    outcomes: dict[Write, WriteOutcome] = {}
    with autocommit(clone) as connection:
        relations = read_relations(connection)
        for sample in before.samples:
            if sample.table.quoted in relations:
                with _rolled_back(connection):
                    outcomes |= _try(connection, sample, relations[sample.table.quoted])
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
def _rolled_back(connection: Connection) -> Iterator[None]:
    send(connection, "BEGIN", LONGEST)
    try:
        yield
    finally:
        send(connection, "ROLLBACK")


def _try(connection: Connection, sample: Sample, now: WrittenTable) -> Outcomes:
    """Try the three writes as each role, on the table in its present shape."""
    row, table = find_row(connection, sample, now), sample.table
    return {
        (sample.name, act, role): _outcome(connection, role, _statement(sample, may, now, act, row), now, row)
        for role, *may in ((None, table.updates, table.inserts), *table.writers)
        for act in ACTS
        if row is not None or act == "INSERT"
    }


def _outcome(
    connection: Connection, role: str | None, statement: str, now: WrittenTable, row: str | None
) -> WriteOutcome:
    send(connection, "SAVEPOINT pipestate_write")
    try:
        if statement.startswith("INSERT") and row is not None:
            _make_room(connection, f"DELETE FROM {now.quoted} WHERE {row}")
        if role is not None:
            send(connection, f"SET LOCAL ROLE {role}")
        rows = connection.exec_driver_sql(statement, execution_options={"no_parameters": True}).rowcount
        send(connection, "SET CONSTRAINTS ALL IMMEDIATE")
        return WriteOutcome(rows)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return WriteOutcome(0, _said(error), sqlstate(error))
    finally:
        send(connection, "ROLLBACK TO SAVEPOINT pipestate_write")


def _statement(
    sample: Sample, may: Sequence[Sequence[str]], now: WrittenTable, act: str, row: str | None
) -> str:
    """Write the statement of a role; `may` are the columns that it may update and insert."""
    updates, inserts = may
    if act == "DELETE":
        return f"DELETE FROM {now.quoted} WHERE {row}"
    if act == "UPDATE":
        own = [name for name in sample.table.updates if name in updates]
        names = [name for name in own if name in now.columns] or list(now.columns[:1])
        return f"UPDATE {now.quoted} SET {', '.join(f'{name} = {name}' for name in names)} WHERE {row}"
    names = [name for name in sample.values if name in now.columns and name in inserts]
    if not names:
        return f"INSERT INTO {now.quoted} DEFAULT VALUES"
    values = ", ".join(literal(sample.values[name]) for name in names)
    return f"INSERT INTO {now.quoted} ({', '.join(names)}) OVERRIDING SYSTEM VALUE VALUES ({values})"


def _make_room(connection: Connection, delete: str) -> None:
    """Delete the sampled row, so that its copy can reuse the keys; skip triggers if the role may."""
    setting = "SET LOCAL session_replication_role"
    for statements in ((f"{setting} = replica", delete, f"{setting} = origin"), (delete,)):
        send(connection, "SAVEPOINT pipestate_room")
        with suppress(DBAPIError):
            return send(connection, *statements)
        send(connection, "ROLLBACK TO SAVEPOINT pipestate_room")
    return None


def _said(error: DBAPIError) -> str:
    """Return the server's error and its origin, on one line."""
    context = getattr(getattr(error.orig, "diag", None), "context", None) or ""
    where = [line for line in context.splitlines() if line.startswith("PL/") and " function " in line]
    return f"{message(error).partition(chr(10))[0]}{f' ({where[0]})' if where else ''}"
