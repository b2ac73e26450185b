"""Scratch copy of the clone, for the run against blocking readers: made before the clone is migrated."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import Unreachable
from pipestate.core.text import size
from pipestate.database import connections as db
from pipestate.database.drivers import message

MOST_BYTES = 1 << 30  # a larger copy takes minutes, and more disk than expected
PREFIX = "pipestate_rehearsal_"
MOST_NAMED = 30  # characters of the clone's name: the whole name has at most 63
# Copying needs CREATEDB and an owned source; before PostgreSQL 15 there is one copy strategy.
FACTS = text(
    "SELECT current_database()::text AS name, pg_database_size(d.oid) AS bytes, "
    "current_setting('server_version_num')::int >= 150000 AS has_strategies, "
    "r.rolsuper OR (r.rolcreatedb AND (d.datistemplate OR pg_has_role(d.datdba, 'USAGE'))) AS may_copy "
    "FROM pg_catalog.pg_database d, pg_catalog.pg_roles r WHERE d.datname = current_database() AND r.rolname = current_user"
)
# Settings of ALTER DATABASE, such as lock_timeout, are not copied with the database. Lists keep their spelling;
# other settings are single values.
SETTINGS = text(
    "SELECT 'ALTER ' || CASE s.setrole WHEN 0 THEN '' ELSE format('ROLE %s IN ', s.setrole::regrole) END "
    "|| format('DATABASE %I SET %I TO %s', CAST(:name AS text), split_part(c, '=', 1), CASE WHEN split_part(c, '=', 1) "
    "IN ('search_path', 'temp_tablespaces', 'session_preload_libraries', 'local_preload_libraries') "
    "THEN substr(c, strpos(c, '=') + 1) ELSE quote_literal(substr(c, strpos(c, '=') + 1)) END) "
    "FROM pg_catalog.pg_db_role_setting s CROSS JOIN LATERAL unnest(s.setconfig) AS c "
    "WHERE s.setdatabase = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) "
    "AND s.setrole IN (0, (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = current_user))"
)


@dataclass(frozen=True, slots=True)
class ScratchCopy:
    """A copy, or the reason why there is none."""

    url: URL | None
    why_not: str | None = None


@contextmanager
def scratch_copy(clone: URL) -> Iterator[ScratchCopy]:
    """Copy the clone on its own server, if the role may; drop the copy at the end."""
    name = _named(clone)
    with _alone(clone) as connection:
        facts = connection.execute(FACTS).one()
        why_not = _why_not(facts) or _copy(connection, facts, clone, name)
    if why_not is not None:
        yield ScratchCopy(None, why_not)
        return
    try:
        yield ScratchCopy(clone.set(database=name))
    finally:
        _drop(clone, name)


def _named(clone: URL) -> str:
    """Choose a name that contains the clone's: a killed process leaves its copy behind.

    >>> from sqlalchemy import make_url
    >>> _named(make_url('postgresql://db/Shop "Clöne"'))[:33]
    'pipestate_rehearsal_shop__cl_ne__'
    """
    known = re.sub(r"[^a-z0-9_]", "_", str(clone.database).lower())[:MOST_NAMED]
    return f"{PREFIX}{known}_{secrets.token_hex(6)}"


def _why_not(facts: Any) -> str | None:
    if not facts.may_copy:
        return "the role may not create databases"
    return f"the clone has more than {size(MOST_BYTES)}" if facts.bytes > MOST_BYTES else None


def _copy(connection: Connection, facts: Any, clone: URL, name: str) -> str | None:
    """Make the copy; return the reason if the server refuses it or ends the session. An error leaves no copy.

    The files are copied and flushed before this returns; a WAL copy would be written out during the rehearsal.
    """
    source = connection.dialect.identifier_preparer.quote(facts.name)
    strategy = " STRATEGY FILE_COPY" if facts.has_strategies else ""
    try:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {source}{strategy}")
        _set(connection, name)
    except BaseException as error:
        _drop(clone, name)  # uses a separate session: this one may have been ended
        if not isinstance(error, DBAPIError):
            raise
        return f"the clone could not be copied: {message(error).partition(chr(10))[0]}"
    return None


def _set(connection: Connection, name: str) -> None:
    """Give the copy the settings of the clone."""
    for statement in connection.execute(SETTINGS, {"name": name}).scalars().all():
        connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def _drop(clone: URL, name: str) -> None:
    try:
        with _alone(clone) as connection:
            connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    except Unreachable as error:
        raise Unreachable(
            f"the copy {name} of the clone could not be dropped, so drop it: {error}"
        ) from error


@contextmanager
def _alone(clone: URL) -> Iterator[Connection]:
    """Connect to the clone itself: a database can be copied by its only session."""
    with db.reachable(clone), db.engine_for(clone).connect() as plain:
        yield plain.execution_options(isolation_level="AUTOCOMMIT")
