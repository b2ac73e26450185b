"""Choose, once, what is registered for an engine under the name of its dialect. Imports no library."""

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from pipestate.errors import ConfigError

T = TypeVar("T")


class OfDialect(Protocol):
    """A connection, an engine of SQLAlchemy's, or Alembic's context."""

    @property
    def dialect(self) -> Any: ...


class Addressed(Protocol):
    """A URL."""

    def get_backend_name(self) -> str: ...


OfEngine = OfDialect | Addressed | str


def choose(implementations: Mapping[str, T], on: OfEngine) -> T:
    """Choose the implementation for an engine; refuse one that has none, in a sentence."""
    name = name_of(on)
    if name not in implementations:
        raise ConfigError(f"pipestate works with PostgreSQL and SQLite, not with {name}")
    return implementations[name]


def name_of(on: OfEngine) -> str:
    """Return the name of the engine that a connection, a context or a URL belongs to.

    >>> name_of("sqlite")
    'sqlite'
    """
    if isinstance(on, str):
        return on
    if (backend := getattr(on, "get_backend_name", None)) is not None:
        return str(backend())
    return str(on.dialect.name)  # type: ignore[union-attr]
