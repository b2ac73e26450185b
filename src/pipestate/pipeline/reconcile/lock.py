"""The lock that keeps reconciliations apart; it ends with its holder, however that ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from pipestate.errors import ConfigError

# "pipe", "reco" as two integers.
LOCK = {"a": 0x70697065, "b": 0x7265636F}
# For this transaction, whatever the role or the database has set; PostgreSQL 16 has only one of them.
NO_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_settings"
    " WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)


@contextmanager
def reconcile_lock(engine: Engine) -> Iterator[bool]:
    """Hold the reconcile lock; yield False when another run has it.

    PostgreSQL: an advisory lock of a transaction on a connection of its own, which works behind PgBouncer
    as well. The transaction holds no snapshot, so it keeps no vacuum waiting. Should the connection be lost
    on the way, the work goes on: each site is written only as it was planned. SQLite: a locked file.
    """
    if engine.dialect.name == "sqlite":
        with _locked_file(Path(f"{engine.url.database}.reconcile")) as held:
            yield held
        return
    connection = engine.connect()
    try:
        connection.exec_driver_sql(NO_TIMEOUTS)
        yield bool(connection.scalar(text("SELECT pg_try_advisory_xact_lock(:a, :b)"), LOCK))
    finally:
        with suppress(DBAPIError):
            connection.close()


@contextmanager
def _locked_file(path: Path) -> Iterator[bool]:
    with _open_lock_file(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _open_lock_file(path: Path) -> IO[str]:
    try:
        return path.open("a")
    except OSError as error:
        raise ConfigError(
            f"cannot open {path}: {error.strerror}; reconcile locks this file, make it writable"
        ) from error
