"""What `alembic -x name=value` may say, and which database is meant."""

import configparser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from sqlalchemy import URL, make_url

from pipestate.config import resolve_url
from pipestate.ddl.failure import MigrationError
from pipestate.errors import ConfigError

X_OPTIONS = {
    "url": "the database",
    "force": "a reason to go through a closed gate",
    "naive-timezone": "how to read timestamps without a zone (UTC)",
}


def read_options(context: EnvironmentContext) -> dict[str, str]:
    """Read the -x options; refuse unknown and empty ones."""
    options = context.get_x_argument(as_dictionary=True)
    for name, value in options.items():
        if name not in X_OPTIONS:
            known = ", ".join(f"-x {key}=... ({what})" for key, what in X_OPTIONS.items())
            # A URL without `url=` in front must not be repeated: it may hold a password.
            what = f"unknown option -x {name}" if name.replace("-", "").isalnum() else "-x takes name=value"
            raise MigrationError(f"{what}; there are {known}")
        if not value.strip():
            raise MigrationError(f"-x {name}= is empty: it takes {X_OPTIONS[name]}")
    return options


def online_url(context: EnvironmentContext, options: dict[str, str]) -> URL:
    """Find the database that is to be migrated."""
    try:
        return _url(context, options)
    except ConfigError as error:
        raise MigrationError(str(error)) from error


def offline_url(context: EnvironmentContext, options: dict[str, str]) -> URL:
    """Find the dialect, which is all that a script needs: without a database it is PostgreSQL's."""
    try:
        return _url(context, options)
    except ConfigError as error:
        if "url" in options:
            raise MigrationError(str(error)) from error
        return make_url("postgresql+psycopg2://")


def _url(context: EnvironmentContext, options: dict[str, str]) -> URL:
    def ini_url() -> str | None:
        with told_without_values(context.config):
            return context.config.get_main_option("sqlalchemy.url")

    return resolve_url(options.get("url"), ini_url=ini_url)


def read_without_values(config: Config) -> None:
    """Have whatever this env.py reads from its ini fail in a sentence that repeats no value: one may be a password."""

    def told(read: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(read)
        def read_told(*arguments: Any, **named: Any) -> Any:
            with told_without_values(config):
                return read(*arguments, **named)

        return read_told

    for name in ("get_main_option", "get_section", "get_section_option"):
        setattr(config, name, told(getattr(config, name)))


@contextmanager
def told_without_values(config: Config) -> Iterator[None]:
    """Turn an ini whose `%` cannot be read into a sentence; configparser would repeat what stands behind it."""
    try:
        yield
    except configparser.InterpolationError as error:
        name = getattr(error, "option", "a value")
        raise MigrationError(
            f"{config.config_file_name}: {name} in [{getattr(error, 'section', '')}] has a % that is not escaped, or asks "
            "for a name that nothing sets: write %% for a plain %"
        ) from None
