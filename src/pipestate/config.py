"""URLs of databases, as pipestate and Alembic both read them."""

from pipestate.database.urls import parse_url, resolve_url

__all__ = ["parse_url", "resolve_url"]
