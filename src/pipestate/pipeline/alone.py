"""One at a time: a lock that ends with its holder, however that ends."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, text

# "pipe", "reco" as two integers.
LOCK = {"a": 0x70697065, "b": 0x7265636F}


@contextmanager
def alone(engine: Engine) -> Iterator[bool]:
    """Whether nobody else is here; if so, nobody else will be until the end of the block.

    PostgreSQL: an advisory lock of a transaction on a connection of its own, which works behind PgBouncer
    as well. The transaction holds no snapshot, so it keeps no vacuum waiting. SQLite: a locked file.
    """
    if engine.dialect.name == "sqlite":
        with _locked_file(Path(f"{engine.url.database}.reconcile")) as held:
            yield held
        return
    with engine.connect() as connection:
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield bool(connection.scalar(text("SELECT pg_try_advisory_xact_lock(:a, :b)"), LOCK))


@contextmanager
def _locked_file(path: Path) -> Iterator[bool]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
