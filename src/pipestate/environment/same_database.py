"""The database that is migrated is the one that was named, whatever an env.py thinks."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from alembic.runtime.environment import EnvironmentContext
from sqlalchemy import URL, Connection

from pipestate.config import shown
from pipestate.engines.choice import name_of
from pipestate.environment.engine import engine_of
from pipestate.errors import ConfigError

OTHER = (
    "env.py would migrate {other}, not {named}, so nothing was done: it takes its URL from settings of its own. "
    "Set those to the same database, or let it read sqlalchemy.url"
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
    if name_of(connection) != name_of(url):
        return False
    return engine_of(connection).is_same(connection, url)
