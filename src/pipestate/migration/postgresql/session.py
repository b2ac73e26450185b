"""A migration on PostgreSQL: its session and head of a script, one migration at a time, and locks on tables."""

import sys
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from alembic import op
from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy import URL, Connection, text

from pipestate.core.text import plain
from pipestate.database.connections import run_own
from pipestate.database.drivers import is_autocommit, warnings_of
from pipestate.ledger.state import read_ledger_state, require_trusted
from pipestate.migration import sql
from pipestate.migration.alembic import version_table
from pipestate.migration.engine import LOCK_PATIENCE_S, LOCK_TIMEOUT_MS
from pipestate.migration.failure import MigrationError, translate_errors
from pipestate.migration.postgresql import calls
from pipestate.migration.run import run_of

# The server warns after two seconds and names the blocking session: its message is the better one.
TELL_AFTER_S = 5.0


@contextmanager
def report_wait(connection: Connection, otherwise: str) -> Iterator[None]:
    """Print one line on stderr after a long wait: the server's last warning, else the sentence given.

    A driver that passes warnings on only at the end of a statement reports too late.
    """
    with warnings_of(connection) as said:

        def tell() -> None:
            newest = said()
            print(plain(newest[-1] if newest else otherwise), file=sys.stderr, flush=True)

        timer = threading.Timer(TELL_AFTER_S, tell)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


# Two kinds of lock: one migration at a time, and tables locked without stopping the traffic. A waiting lock
# request stops all later requests. So `lock_tables` waits briefly, lets the queue behind it pass, and tries
# again, with a growing and jittered pause, until its patience ends; then it names the blocking session.


# "pipe", "stat" as two integers: the advisory lock that every migration takes.
LOCK_KEY = (0x70697065, 0x73746174)
# For statements that block no other session while they wait (VALIDATE); `lock_tables` and index builds have
# their own.
SESSION_LOCK_TIMEOUT = "60s"
MIGRATION_PATIENCE_S = 600.0

HOLDER = (
    "SELECT l.pid, to_char(a.backend_start, 'HH24:MI:SS') AS since FROM pg_locks l "
    "LEFT JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.classid = :a AND l.objid = :b AND l.objsubid = 2 AND l.granted "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_IS_HELD = (
    "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = "
    "'advisory' AND classid = :a AND objid = :b AND objsubid = 2 AND granted)"
)
# The schema that is migrated as a tenant of a fleet: `environment.tenant_schema` sets it for the session.
TENANT = text("SELECT nullif(current_setting('pipestate.tenant', true), '')")


def lock_tables(
    *tables: str,
    mode: str = "ACCESS EXCLUSIVE",
    when: str = "true",
    also: str | None = None,
    timeout_ms: int = LOCK_TIMEOUT_MS,
    patience_s: float = LOCK_PATIENCE_S,
    in_server: bool = False,
) -> None:
    """Lock the existing tables until the end of the transaction; call it first in a transaction.

    `when` is an SQL condition: the lock is taken only if it holds. `also` is a query for more tables.
    `in_server` means that the ledger, and so its procedure, exists.

    1. With a short lock_timeout, request all of them in one subtransaction: all or none.
    2. If one is not available, note its holder, release everything, pause, try again.
    3. After some seconds, warn once and name the holder; when patience ends, fail with the holder's pid and
       query.

    A lower deadlock_timeout, if the role may set it, makes PostgreSQL cancel a blocking autovacuum.
    PostgreSQL does so only for sessions that wait longer than that.
    """
    options: dict[str, calls.Argument] = {}
    if mode != "ACCESS EXCLUSIVE":
        options["the_mode"] = mode
    if when != "true":
        options["the_condition"] = when
    if also:
        options["the_query"] = also
    with patiently(*tables, timeout_ms=timeout_ms, patience_s=patience_s) as patience:
        names = [sql.name(table) for table in tables]
        if sql.is_offline():
            limits = f"{_configured(timeout_ms)} ms at a time, for up to {patience_s:g} s"
            sql.comment(f"lock {', '.join(tables) or 'them'} where needed: {limits}")
        if in_server and not sql.keeps_registry():  # behind a gate the ledger exists, and was compared
            sql.emit(f"CALL {calls.HOME}.{calls.written_call('lock_tables', [names], options | patience)}")
        else:
            calls.call("lock_tables", names, **options, **patience)


@contextmanager
def patiently(
    *tables: str, timeout_ms: int = LOCK_TIMEOUT_MS, patience_s: float = LOCK_PATIENCE_S
) -> Iterator[dict[str, calls.Argument]]:
    """Yield a procedure's arguments for its lock request; report a long wait on stderr."""
    timeout_ms = _configured(timeout_ms)
    arguments: dict[str, calls.Argument] = {}
    if timeout_ms != LOCK_TIMEOUT_MS:
        arguments["the_timeout_ms"] = timeout_ms
    if patience_s != LOCK_PATIENCE_S:
        arguments["the_patience_s"] = patience_s
    with _told(tables, timeout_ms, patience_s):
        yield arguments


def _configured(timeout_ms: int) -> int:
    """Replace the default by the project's own `lock_timeout`, if its configuration has one."""
    from pipestate.migration.run import read_settings

    settings = read_settings(op.get_context().config)
    default = timeout_ms == LOCK_TIMEOUT_MS and settings.lock_timeout_is_given
    return round(settings.lock_timeout_s * 1000) if default else timeout_ms


def _told(tables: Sequence[str], timeout_ms: int, patience_s: float) -> AbstractContextManager[None]:
    """Report a long wait for the lock on stderr; a script reports it by itself."""
    if sql.is_offline():
        return nullcontext()
    named = ", ".join(tables) or "what goes with the table"
    return report_wait(
        op.get_bind(),
        f"still waiting for a lock on {named}: for up to {patience_s:g} s, {timeout_ms} ms at a time",
    )


@contextmanager
def one_migration_at_a_time(
    connection: Connection, *, patience_s: float = MIGRATION_PATIENCE_S, of_transaction: bool = False
) -> Iterator[None]:
    """Hold the advisory lock for the whole run, on the migration's own connection.

    The lock is polled in autocommit. A session that waits inside `pg_advisory_lock` keeps a snapshot, and
    CREATE INDEX CONCURRENTLY of the lock's holder would wait for that snapshot for ever. With
    `of_transaction` it is a lock of a transaction that other code has begun, and ends with it.
    """
    locks = _locks(connection.scalar(TENANT))
    give_up_at = time.monotonic() + patience_s
    said = False
    while (taken := _take(connection, locks, of_transaction=of_transaction)) is not None:
        holders = run_own(connection, HOLDER, **taken)
        who = f"pid {holders[0].pid}, since {holders[0].since or 'just now'}" if holders else "just ending"
        if time.monotonic() >= give_up_at:
            raise MigrationError(
                f"another migration is still running after {patience_s:g} s ({who}); "
                "wait for it or end it, then run the same again"
            )
        if not said:
            print(f"another migration is running ({who}); waiting for it to end", file=sys.stderr)
            said = True
        time.sleep(0.2)
    try:
        yield
    finally:
        if not of_transaction and not connection.closed and not connection.invalidated:
            connection.rollback()
            _give_back(connection, locks)
            connection.rollback()


def _locks(tenant: str | None) -> list[tuple[str, dict[str, int]]]:
    """List the locks of a migration, each as the end of its function's name and its key.

    Tenants share the lock of their database, and each also has a separate one. A migration of the whole
    database excludes them; tenants do not wait for each other.
    """
    whole = {"a": LOCK_KEY[0], "b": LOCK_KEY[1]}
    if tenant is None:
        return [("", whole)]
    return [("_shared", whole), ("", {"a": LOCK_KEY[0], "b": zlib.crc32(tenant.encode()) - 2**31})]


def _take(
    connection: Connection, locks: list[tuple[str, dict[str, int]]], *, of_transaction: bool
) -> dict[str, int] | None:
    """Take all of them, or none; return the key of the one that another session holds."""
    of = "xact_" if of_transaction else ""
    for number, (kind, key) in enumerate(locks):
        if not connection.scalar(text(f"SELECT pg_try_advisory_{of}lock{kind}(:a, :b)"), key):
            if not of_transaction:
                _give_back(connection, locks[:number])
            return key
    return None


def _give_back(connection: Connection, locks: list[tuple[str, dict[str, int]]]) -> None:
    for kind, key in locks:
        connection.execute(text(f"SELECT pg_advisory_unlock{kind}(:a, :b)"), key)


def assert_lock(connection: Connection) -> None:
    """Fail if the current session is not the one that took the lock.

    PgBouncer in transaction mode hands every transaction to another server session: locks and settings stay
    behind, and CONCURRENTLY cannot work.
    """
    key = {"a": LOCK_KEY[0], "b": LOCK_KEY[1]}
    if not run_own(connection, _IS_HELD, **key)[0][0]:
        raise MigrationError(
            "the migration lock was lost: the server session changed under the connection. "
            "Connect to PostgreSQL itself, or to a pooler in session mode, and run the same again"
        )


def not_available() -> str:
    """Write the PL/pgSQL that stops a revision cut out of its script while another migration runs."""
    a, b = LOCK_KEY
    return sql.refusing(
        f"NOT pg_try_advisory_lock({a}, {b})",
        "another migration is running on this database: wait for it to end, then run this script again",
    )


def offline_wait() -> str:
    """Write the head of a script, outside any transaction: it waits for the lock, a second at a time."""
    a, b = LOCK_KEY
    return f"""DO $pipestate$
BEGIN
  FOR attempt IN 1..{int(MIGRATION_PATIENCE_S)} LOOP
    IF pg_try_advisory_lock({a}, {b}) THEN RETURN; END IF;
    COMMIT;
    PERFORM pg_sleep(1);
  END LOOP;
  {sql.refusal("another migration is still running on this database: run this script again later")}
END $pipestate$;"""


CONNECT_ARGUMENTS: dict[str, Any] = {"connect_timeout": 10, "application_name": "pipestate alembic"}
SESSION = {
    "TimeZone": "UTC",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": SESSION_LOCK_TIMEOUT,
    "default_transaction_read_only": "off",
    # Rows that a policy hides would count as absent: raise an error instead of making an empty copy.
    "row_security": "off",
    # One core is enough for a migration: the others belong to concurrent writers.
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
}
HEAD = r"""-- Written by `alembic --sql`. Review it, then run it with psql: psql -f this-file DATABASE
\set ON_ERROR_STOP on"""
# Use the oid: a name in a schema that this role may not use is an error.
_MAY_WRITE = """SELECT current_user::text AS me, has_schema_privilege(n.oid, 'USAGE')
      AND has_table_privilege(c.oid, 'SELECT') AND has_any_column_privilege(c.oid, 'INSERT') AS may
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relname = 'run'"""


@contextmanager
def open_session(connection: Connection, *, locked: bool) -> Iterator[None]:
    """Set up the session and, with `locked`, hold the migration lock; undo both on a lent connection."""
    level = connection.get_isolation_level()
    connection.rollback()
    connection.execution_options(isolation_level="AUTOCOMMIT")
    wanted = dict(SESSION)
    if connection.exec_driver_sql("SHOW server_version_num").scalar_one() >= "140000":
        # The backend of a killed client would otherwise sleep on in `lock_tables`, holding the lock.
        wanted["client_connection_check_interval"] = "1s"
    before = {name: connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in wanted}
    _set(connection, wanted)
    try:
        with one_migration_at_a_time(connection) if locked else nullcontext():
            connection.rollback()
            connection.execution_options(isolation_level=level)
            yield
    finally:
        if not connection.closed and not connection.invalidated:
            connection.rollback()
            connection.execution_options(isolation_level="AUTOCOMMIT")
            _set(connection, before)
            connection.rollback()
            connection.execution_options(isolation_level=level)


@contextmanager
def hold_lock(connection: Connection) -> Iterator[None]:
    """Hold the migration lock: of the transaction, if other code began one; else of the session."""
    inside = connection.in_transaction() and not is_autocommit(connection)
    with one_migration_at_a_time(connection, of_transaction=inside):
        if not inside:
            connection.rollback()  # Alembic begins its own
        yield


def require_recordable(connection: Connection) -> None:
    """Refuse a ledger of another role, or one that this role may not write to."""
    with translate_errors(connection.engine.url):
        state = read_ledger_state(connection)
        if state.installed and not state.missing:
            require_trusted(connection)
            _require_rights(connection)


def broken_references(connection: Connection) -> set[tuple[Any, ...]]:
    """Return an empty set: foreign keys are on, and the server refuses broken references."""
    del connection
    return set()


def is_new(url: URL) -> bool:
    """Return False: connecting to a server creates no database."""
    del url
    return False


def write_head(migration: MigrationContext) -> None:
    """Write the script's head: psql stops at an error, the settings, and the wait for the lock."""
    settings = "\n".join(f"SET {name} = '{value}';" for name, value in SESSION.items())
    migration.impl.static_output(f"{HEAD}\n{settings}")
    migration.impl.static_output(offline_wait())


def assert_start(migration: MigrationContext, step: RevisionStep) -> None:
    """Assert, in each revision, the version that it starts from: a script for another state does nothing."""
    expected = step.from_revisions_no_deps
    wanted = expected[0] if expected else ""
    table = sql.name(version_table(migration).fullname)
    run = run_of(migration)
    if run.required_ledger == run.revision:
        sql.emit(f"CALL pipestate.require_start({sql.literals((table, wanted))})")
        return
    other_version = sql.refusing(
        f"(SELECT coalesce(string_agg(version_num, ' '), '') FROM {table}) <> {sql.literal(wanted)}",
        f"this part of the script starts at revision {wanted or 'base'}, but the database is at {{actual}}: "
        "nothing was changed",
        actual=f"(SELECT coalesce(string_agg(version_num, ' '), 'base') FROM {table})",
    )
    sql.do(
        f"{other_version}\n{not_available()}",
        why=f"The database is at revision {wanted or 'base'}, and no other migration is running",
    )


def _require_rights(connection: Connection) -> None:
    ((me, may),) = run_own(connection, _MAY_WRITE)
    if not may:
        raise MigrationError(
            f"the role {me} may not record in the ledger of this database, so nothing of this revision was run. "
            f"As its owner: CALL pipestate.grant_migrating({sql.literal(me)})"
        )


def _set(connection: Connection, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        connection.exec_driver_sql(f"SET {name} = {sql.literal(value)}")
