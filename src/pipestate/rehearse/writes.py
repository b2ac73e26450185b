"""Test writes on the clone: one UPDATE, INSERT and DELETE of a sampled row of each table.

They run before and after the pending revisions, each in a transaction that is rolled back. The second time, the
same values are written to the remaining columns, as today's code would.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy import URL, Connection
from sqlalchemy.exc import DBAPIError

from pipestate.database import connections as db
from pipestate.database.drivers import message, sqlstate
from pipestate.rehearse.clone import Table
from pipestate.rehearse.sampled_row import (
    Sample,
    Writer,
    WrittenTable,
    find_row,
    literal,
    read_relations,
    read_roles,
    run,
    sample_row,
)

ACTS = ("UPDATE", "INSERT", "DELETE")
LONGEST = "SET LOCAL statement_timeout = '10s'; SET LOCAL lock_timeout = '5s'"
# Another row has the key, or refers to it: earlier triggers and rules have run.
REACHED_THE_KEYS = frozenset(("23503", "23505", "23P01"))


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


Outcomes = Mapping[tuple[str, str, str | None], WriteOutcome]  # by table, operation and role


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
    outcomes: dict[tuple[str, str, str | None], WriteOutcome] = {}
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
    outcomes: dict[tuple[str, str, str | None], WriteOutcome] = {}
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
        done = connection.exec_driver_sql(
            _statement(sample, writer, act, row, columns), execution_options={"no_parameters": True}
        )
        rows = done.rowcount
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
