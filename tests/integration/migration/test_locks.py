"""Locks: short requests, patience, a name for who is in the way, one migration at a time."""

import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import psycopg2.extensions
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.migration import MigrationContext
from alembic.operations import Operations

from pipestate.core.errors import PipestateError
from pipestate.database.connections import reachable
from pipestate.database.embedded import embedded_server
from pipestate.database.interrupt import listen
from pipestate.ddl import lock_tables
from pipestate.migration.failure import MigrationError, translate_errors
from pipestate.migration.postgresql import session as waiting
from pipestate.migration.sqlite.session import hold_file
from support.alembic_runs import ROOT, Migrations, config_for
from support.driver_connections import connected
from support.programs import run_at_once
from support.servers import ADVISORY_LOCKS_HERE, Database, memory
from support.standby import restart


def in_a_revision(connection: sa.Connection) -> AbstractContextManager[Operations]:
    """Helpers outside the migrations, as another project's revision would call them."""
    return Operations.context(MigrationContext.configure(connection, opts={"version_table": "app_version"}))


def test_a_lock_that_is_not_to_be_had_names_the_pid_and_the_query(pg_legacy: Migrations) -> None:
    database = pg_legacy.database
    with database.begin() as holder, database.begin() as waiter:
        pid = holder.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        holder.exec_driver_sql("SELECT count(*) /* the long report */ FROM sites")
        with in_a_revision(waiter), pytest.raises(MigrationError) as caught:
            lock_tables("sites", patience_s=0.5)
    message = str(caught.value)
    assert f"pid {pid}" in message
    assert "the long report" in message


def test_another_roles_session_that_holds_it_is_said_to_be_one(pg: Database) -> None:
    """What it runs is not shown to who may not see it: not even its name."""
    role = f"{pg.url.database}_plain"
    pg.run(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'", "CREATE TABLE t (id int)", f"ALTER TABLE t OWNER TO {role}"
    )
    plain = Database(pg.url.set(username=role, password="x"))
    try:
        with pg.begin() as holder, plain.begin() as waiter:
            pid = holder.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            holder.exec_driver_sql("SELECT count(*) FROM t")
            with in_a_revision(waiter), pytest.raises(MigrationError) as caught:
                lock_tables("t", patience_s=0.3)
    finally:
        plain.leave()
        pg.run("DROP TABLE t", f"DROP ROLE {role}")
    assert (
        f"pid {pid}, a session of {pg.url.username}, holds the lock (its query is hidden from {role})"
        in str(caught.value)
    )


def test_a_prepared_transaction_that_holds_it_is_named() -> None:
    """It has no session, and so no pid: nobody would find it."""
    with embedded_server(within=memory()) as url:
        database = Database(url, keeps_session=False)
        with sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT").connect() as setting:
            setting.exec_driver_sql("ALTER SYSTEM SET max_prepared_transactions = 2")
        restart(url)
        database.run("CREATE TABLE t (id int)")
        database.run("LOCK TABLE t IN ACCESS SHARE MODE", "PREPARE TRANSACTION 'it''s forgotten'")
        with database.begin() as waiter, in_a_revision(waiter), pytest.raises(MigrationError) as caught:
            lock_tables("t", patience_s=0.3)
    assert "the prepared transaction 'it''s forgotten' of postgres holds the lock, since " in str(
        caught.value
    )
    assert "ROLLBACK PREPARED" in str(caught.value)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait is reported after a moment, and not after seconds."""
    monkeypatch.setattr(waiting, "TELL_AFTER_S", 4.0)


def wait_in_vain(database: Database, waiter: sa.Connection) -> int:
    """Request a lock that a report holds; return the pid of the report."""
    with database.begin() as holder:
        pid: int = holder.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        holder.exec_driver_sql("SELECT count(*) /* the long report */ FROM sites")
        with in_a_revision(waiter), pytest.raises(MigrationError):
            lock_tables("sites", patience_s=5)
    return pid


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("driver", ["psycopg2", "psycopg", "psycopg_async", "asyncpg"])
def test_a_wait_for_a_lock_is_reported_once_with_who_holds_it(
    driver: str, pg_legacy: Migrations, capfd: pytest.CaptureFixture[str]
) -> None:
    database = pg_legacy.database
    listen()
    try:
        pid = connected(database, f"postgresql+{driver}", lambda waiter: wait_in_vain(database, waiter))
    finally:
        psycopg2.extensions.set_wait_callback(None)
    (reported,) = [line for line in capfd.readouterr().err.splitlines() if "still waiting" in line]
    assert reported.startswith(f"still waiting for a lock on sites: pid {pid} ")
    assert "the long report" in reported


@pytest.mark.usefixtures("soon")
def test_a_driver_that_hears_of_it_too_late_still_says_that_it_waits(
    pg_legacy: Migrations, capfd: pytest.CaptureFixture[str]
) -> None:
    with pg_legacy.database.begin() as waiter:
        wait_in_vain(pg_legacy.database, waiter)
    (line,) = capfd.readouterr().err.splitlines()  # on a slow machine the server has named the holder by then
    limit = "still waiting for a lock on sites: for up to 5 s, 200 ms at a time"
    assert line == limit or line.startswith("still waiting for a lock on sites: pid ")


@pytest.mark.usefixtures("soon")
def test_a_lock_that_is_free_is_not_reported(
    pg_legacy: Migrations, capfd: pytest.CaptureFixture[str]
) -> None:
    with pg_legacy.database.begin() as connection, in_a_revision(connection):
        lock_tables("sites")
        time.sleep(1.0)  # longer than the pause before it is reported
    assert capfd.readouterr().err == ""


def test_the_error_of_the_migrations_is_one_sentence(
    pg_legacy: Migrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipestate.migration.postgresql import session as locks
    from pipestate.migration.postgresql import tables

    monkeypatch.setattr(tables, "patiently", partial(locks.patiently, patience_s=0.3))
    with pg_legacy.database.begin() as holder:
        holder.exec_driver_sql("LOCK TABLE sites IN ACCESS SHARE MODE")
        with pytest.raises(
            MigrationError, match=r"could not lock sites within 0.3 s: pid \d+ .*run the same again"
        ):
            pg_legacy.upgrade("0003")
    assert pg_legacy.revision() == "0002"
    pg_legacy.upgrade("0005")


@pytest.mark.scene
def test_writers_pass_while_the_migration_waits_for_a_reader(pg_legacy: Migrations) -> None:
    """Behind a lock request without a timeout, every writer would wait until the reader is done."""
    pg_legacy.upgrade("0002")
    database = pg_legacy.database
    longest, done = 0.0, threading.Event()

    def write() -> None:
        nonlocal longest
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as writer:
            while not done.is_set():
                start = time.monotonic()
                writer.exec_driver_sql("UPDATE sites SET name = 'x' WHERE subdomain = 'site001.example.gov'")
                longest = max(longest, time.monotonic() - start)

    with database.engine.connect() as reader:
        transaction = reader.begin()
        reader.exec_driver_sql("SELECT count(*) FROM sites")
        writer = threading.Thread(target=write)
        migration = threading.Thread(target=pg_legacy.upgrade, args=("0003",))
        writer.start()
        migration.start()
        time.sleep(3)
        transaction.rollback()
        migration.join(60)
        done.set()
        writer.join(60)
    assert pg_legacy.revision() == "0003"
    assert longest < 1.5, f"a writer waited {longest:.2f} s behind the migration's lock request"


def test_all_tables_are_locked_or_none(pg_legacy: Migrations) -> None:
    database = pg_legacy.database
    with database.begin() as holder, database.begin() as waiter:
        holder.exec_driver_sql("LOCK TABLE site_progress IN ACCESS EXCLUSIVE MODE")
        with in_a_revision(waiter), pytest.raises(MigrationError):
            lock_tables("sites", "site_progress", patience_s=0.3)
        waiter.rollback()
        held = "SELECT count(*) FROM pg_locks WHERE relation = 'sites'::regclass AND mode = 'AccessExclusiveLock'"
        assert holder.exec_driver_sql(held).scalar() == 0


def test_twelve_upgrades_at_once_all_exit_zero(pg_migrations: Migrations) -> None:
    ends = upgrade_at_once(pg_migrations, 12)
    assert [end.returncode for end in ends] == [0] * 12, ends
    worked = [end for end in ends if "Running upgrade" in end.stderr]
    assert len(worked) == 1, "more than one of them did something"
    assert pg_migrations.revision() == "0007"


def upgrade_at_once(migrations: Migrations, number: int) -> "list[subprocess.CompletedProcess[str]]":
    """Run `alembic upgrade head` in that many processes, all of them at the same time."""
    argv = ["alembic", "-x", f"url={migrations.database.text}", "upgrade", "head"]
    return run_at_once([argv] * number, cwd=ROOT, environment=os.environ)


def test_six_upgrades_at_once_on_sqlite(sqlite_database: Database) -> None:
    ends = upgrade_at_once(Migrations(sqlite_database), 6)
    assert [end.returncode for end in ends] == [0] * 6, ends
    assert Migrations(sqlite_database).revision() == "0007"


def test_sessions_that_wait_for_a_file_hold_no_lock_of_it(sqlite_database: Database) -> None:
    """With a shared lock each, two that begin at the same moment would wait for each other for ten minutes."""
    path, failed = str(sqlite_database.url.database), []

    def hold(begin: threading.Barrier) -> None:
        driver = sqlite3.connect(path, isolation_level=None)
        begin.wait()
        try:
            hold_file(driver, patience_s=10)
            driver.execute("CREATE TABLE IF NOT EXISTS t (a)")
        except sqlite3.OperationalError as error:
            failed.append(str(error))
        driver.close()

    for _ in range(10):
        begin = threading.Barrier(6)
        together = [threading.Thread(target=hold, args=(begin,)) for _ in range(6)]
        for thread in together:
            thread.start()
        for thread in together:
            thread.join()
    assert failed == []


def test_on_sqlite_patience_begins_before_the_first_read(sqlite_database: Database) -> None:
    """The driver's own patience, here a tenth of a second, is over long before the other migration."""
    path = str(sqlite_database.url.database)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    release = threading.Timer(1.0, other.rollback)
    release.start()
    command.upgrade(config_for(f"sqlite:///{path}?timeout=0.1"), "0001")
    release.join()
    other.close()
    assert Migrations(sqlite_database).revision() == "0001"


def lose_connection(connection: sa.Connection) -> None:
    """End the session where Alembic commits by itself: on its way out it begins a transaction on it."""
    context = MigrationContext.configure(connection)
    with context.begin_transaction(), context.autocommit_block():
        connection.exec_driver_sql("SELECT pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())")


@pytest.mark.parametrize("heard", [translate_errors, reachable])
def test_a_connection_that_is_lost_is_one_sentence_whoever_tidies_up_on_it(
    pg: Database, heard: Callable[[sa.URL], AbstractContextManager[None]]
) -> None:
    with pytest.raises(PipestateError, match=r"lost the connection to|cannot reach"):  # noqa: SIM117
        with heard(pg.url), pg.engine.connect() as connection:
            lose_connection(connection)


def test_current_and_history_do_not_queue(pg_migrations: Migrations) -> None:
    pg_migrations.upgrade("0002")
    with pg_migrations.database.engine.connect() as other:
        other.exec_driver_sql("SELECT pg_advisory_lock(1885958245, 1937006964)")
        assert "0002" in pg_migrations.cli("current").stdout
        assert "0001 -> 0002" in pg_migrations.cli("history", "-i").stdout


def test_a_lost_migration_lock_is_noticed(pg_migrations: Migrations, monkeypatch: pytest.MonkeyPatch) -> None:
    """What PgBouncer in transaction mode does: the next transaction is another server session."""
    from pipestate.migration import environment
    from pipestate.migration.guard import assert_lock

    def lose_the_lock(migration: MigrationContext, current: Any) -> None:
        assert migration.connection is not None
        migration.connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")
        assert_lock(migration, current)

    monkeypatch.setattr(environment, "assert_lock", lose_the_lock)
    with pytest.raises(MigrationError, match="pooler in session mode"):
        pg_migrations.upgrade("head")
    assert pg_migrations.revision() is None


def test_a_lent_connection_gets_its_settings_and_its_lock_back(pg_migrations: Migrations) -> None:
    from alembic import command

    from support.alembic_runs import config_for

    config = config_for(pg_migrations.database.text)
    with pg_migrations.database.engine.connect() as connection:
        connection.exec_driver_sql("SET TimeZone = 'Asia/Tokyo'")
        connection.exec_driver_sql("SET lock_timeout = '7s'")
        connection.commit()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        assert connection.exec_driver_sql("SHOW TimeZone").scalar() == "Asia/Tokyo"
        assert connection.exec_driver_sql("SHOW lock_timeout").scalar() == "7s"
        assert connection.exec_driver_sql(ADVISORY_LOCKS_HERE).all() == []
    assert pg_migrations.revision() == "0007"


def test_a_lent_connection_inside_a_transaction_is_refused(migrations: Migrations) -> None:
    from alembic import command

    from support.alembic_runs import config_for

    config = config_for(migrations.database.text)
    with migrations.database.engine.connect() as connection:
        connection.begin()
        config.attributes["connection"] = connection
        with pytest.raises(MigrationError, match="inside a transaction"):
            command.upgrade(config, "head")
