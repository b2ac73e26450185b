"""The database that is migrated is the one that was named, whatever an env.py thinks."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from alembic.runtime.environment import EnvironmentContext
from sqlalchemy import URL, Connection, text

from pipestate import db
from pipestate.config import shown
from pipestate.errors import ConfigError

OTHER = (
    "env.py would migrate {other}, not {named}, so nothing was done: it takes its URL from settings of its own. "
    "Set those to the same database, or let it read sqlalchemy.url"
)

# An advisory lock is of one database: whoever sees it there is connected to the same one.
SEES_LOCK = text(
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.classid = :high AND l.objid = :low "
    "AND d.datname = pg_catalog.current_database())"
)


@contextmanager
def only_on(url: URL) -> Iterator[None]:
    """Refuse, before its first statement, an env.py that configures a connection to another database."""
    configure = EnvironmentContext.configure

    @wraps(configure)
    def configure_here(
        self: EnvironmentContext, connection: Connection | None = None, *more: Any, **options: Any
    ) -> None:
        if connection is not None:
            _require_same(connection, url)
        configure(self, connection, *more, **options)

    EnvironmentContext.configure = configure_here  # type: ignore[method-assign]
    try:
        yield
    finally:
        EnvironmentContext.configure = configure  # type: ignore[method-assign]


def _require_same(connection: Connection, url: URL) -> None:
    inside = connection.in_transaction()
    try:
        same = is_same(connection, url)
    finally:
        if not inside:
            connection.rollback()  # Alembic would take the transaction of our question for somebody else's
    if not same:
        raise ConfigError(OTHER.format(other=shown(connection.engine.url), named=shown(url)))


def is_same(connection: Connection, url: URL) -> bool:
    """Say whether a connection is to this database, whatever its own URL says."""
    if connection.dialect.name != url.get_backend_name():
        return False
    if connection.dialect.name == "sqlite":
        return _same_file(connection, url)
    high, low = secrets.randbits(31), secrets.randbits(31)
    with db.writer(url) as ours:
        ours.execute(text("SELECT pg_advisory_xact_lock(:high, :low)"), {"high": high, "low": low})
        return bool(connection.execute(SEES_LOCK, {"high": high, "low": low}).scalar())


def _same_file(connection: Connection, url: URL) -> bool:
    files = {name: file for _, name, file in connection.exec_driver_sql("PRAGMA database_list")}
    named = "" if url.database in (None, "", ":memory:") else str(url.database)
    here = str(files.get("main") or "")
    return named == here or (bool(named and here) and Path(named).resolve() == Path(here).resolve())
