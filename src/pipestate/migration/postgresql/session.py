"""A migration on PostgreSQL: its session, the lock that keeps others out, the head of a script."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy import URL, Connection

from pipestate.ledger.state import look, require_trusted
from pipestate.migration import sql
from pipestate.migration.alembic import version_table
from pipestate.migration.failure import MigrationError, translate_errors
from pipestate.migration.postgresql import locks
from pipestate.migration.run import run_of

CONNECT_ARGUMENTS: dict[str, Any] = {"connect_timeout": 10, "application_name": "pipestate alembic"}
SESSION = {
    "TimeZone": "UTC",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": locks.SESSION_LOCK_TIMEOUT,
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
_MAY_WRITE = """SELECT current_user::text AS me, pg_catalog.has_schema_privilege(n.oid, 'USAGE')
      AND pg_catalog.has_table_privilege(c.oid, 'SELECT')
      AND pg_catalog.has_table_privilege(c.oid, 'INSERT') AS may
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
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
        with locks.one_migration_at_a_time(connection) if locked else nullcontext():
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
    inside = connection.in_transaction()
    with locks.one_migration_at_a_time(connection, of_transaction=inside):
        if not inside:
            connection.rollback()  # Alembic begins its own
        yield


def assert_lock(connection: Connection) -> None:
    """Refuse to continue if a pooler has given the connection another session, without the lock."""
    locks.assert_lock_held(connection)


def require_recordable(connection: Connection) -> None:
    """Refuse a ledger of another role, or one that this role may not write to."""
    with translate_errors(connection.engine.url):
        state = look(connection)
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
    migration.impl.static_output(locks.offline_wait())


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
        f"{other_version}\n{locks.not_available()}",
        why=f"The database is at revision {wanted or 'base'}, and no other migration is running",
    )


def _require_rights(connection: Connection) -> None:
    found = connection.exec_driver_sql(_MAY_WRITE).one()
    if not found.may:
        raise MigrationError(
            f"this database has a ledger, and the role {found.me} may not write into it, so nothing of this "
            "revision was "
            f'run: GRANT USAGE ON SCHEMA pipestate TO "{found.me}"; GRANT SELECT, INSERT ON pipestate.run, '
            f'pipestate.result TO "{found.me}"'
        )


def _set(connection: Connection, settings: dict[str, str]) -> None:
    for name, value in settings.items():
        connection.exec_driver_sql(f"SET {name} = {sql.literal(value)}")
