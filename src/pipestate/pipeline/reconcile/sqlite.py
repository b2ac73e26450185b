"""Reconciliation on SQLite: the lock and the age of a site; a write needs no settings."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from sqlalchemy import ColumnElement, Connection, Engine, func, or_

from pipestate.core.errors import ConfigError


@contextmanager
def hold_lock(engine: Engine) -> Iterator[bool]:
    """Lock a file beside the database."""
    with _open_lock_file(Path(f"{engine.url.database}.reconcile")) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def age_hours(touched: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the hours since a time, by the machine's clock."""
    return (func.julianday("now") - func.julianday(touched)) * 24.0


def is_older(touched: ColumnElement[Any], hours: float) -> ColumnElement[bool]:
    """Test that a time is older than the given hours, or unknown."""
    day = func.julianday(touched)
    return or_(day.is_(None), day < func.julianday("now") - hours / 24)


def prepare_write(conn: Connection) -> None:
    """Keep the transaction's settings, because the row version is the stored text."""
    del conn


def _open_lock_file(path: Path) -> IO[str]:
    try:
        return path.open("a")
    except OSError as error:
        raise ConfigError(
            f"cannot open {path}: {error.strerror}; reconcile locks this file, make it writable"
        ) from error
