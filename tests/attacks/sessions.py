"""Other sessions: who holds a lock, who waits for one, and what is running; polled, never slept for."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection

from attacks.attacked import Started
from support.servers import Database

PATIENCE_S = 30.0
T = TypeVar("T")


def wait_until(holds: Callable[[], object], what: str, *, patience_s: float = PATIENCE_S) -> None:
    """Poll until it holds; fail with `what` where it never does."""
    end = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience_s:g} s, and never: {what}")
        time.sleep(0.01)


def waits_for_lock(database: Database, table: str) -> bool:
    """Whether somebody asks for the table and cannot have it."""
    query = f"SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = to_regclass('{table}')"
    return database.value(query) != 0


def is_running(database: Database, part: str) -> bool:
    """Whether another session runs a statement with this text in it."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() "
        f"AND datname = current_database() AND position('{part}' IN query) > 0"
    )
    return database.value(query) != 0


@contextmanager
def uncommitted(database: Database, *statements: str) -> Iterator[Connection]:
    """Run statements in a transaction of its own; the caller commits it, or it is rolled back."""
    with database.engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
        yield connection


def while_committing(database: Database, table: str, write: str, attack: Callable[[], T]) -> T:
    """Run the attack beside a writer who commits as soon as the attack waits for the table's lock.

    The write is done before, but nobody can see it: so a first look is over when it is committed, and a
    second one, under the lock, comes after it.
    """
    with uncommitted(database, write) as writer, ThreadPoolExecutor(1) as pool:
        attacking: Future[T] = pool.submit(attack)
        wait_until(lambda: attacking.done() or waits_for_lock(database, table), f"somebody waits for {table}")
        writer.commit()
        return attacking.result()


def sessions(database: Database) -> int:
    """Count the other sessions on this database."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    return int(str(database.value(query)))


def has_ended(*processes: Started) -> bool:
    """Whether one of them is no longer running, so that nobody need wait for what it would have done."""
    return any(process.poll() is not None for process in processes)
