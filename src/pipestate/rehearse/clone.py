"""The clone: what must be true of it before anything runs there, and what is on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, text

from pipestate import db
from pipestate.chain.position import Position
from pipestate.chain.version_table import Locator
from pipestate.config import shown
from pipestate.engines.choice import choose, name_of
from pipestate.engines.engine import engine_of
from pipestate.environment.same_database import is_same
from pipestate.errors import ConfigError, Unreachable
from pipestate.interrupt import telling
from pipestate.plural import many

PRODUCTION = (
    "{clone} is production itself ({production}), so nothing was run: --on takes a clone, such as a restored backup or "
    "CREATE DATABASE … TEMPLATE"
)
PRIMARY = "{clone} is the primary of {production}, so it is production itself and nothing was run: --on takes a clone"
STANDBY = "{clone} is a standby, which cannot be migrated: rehearse on a clone of it, or promote one that nobody needs"
BLIND = (
    "the role {role} cannot see other sessions on {clone}, so its locks could not be told from theirs: "
    "GRANT pg_monitor TO {role} is enough"
)
BUSY = (
    "{count} on {clone}, so what they do would be measured, too: {who}. End them, or take a clone of your own"
)
ELSEWHERE = "{clone} is at {there}, production ({production}) at {here}: rehearse on a clone that is at the same revision"
ENGINES = (
    "{clone} and production ({production}) are not of the same engine: a rehearsal there would say nothing"
)

HALF_MIGRATED = "the clone may be half migrated, take a new one; production was not touched"

SERVER = text(
    "SELECT pg_is_in_recovery() AS in_recovery, (SELECT system_identifier FROM pg_control_system()) AS system, "
    "(SELECT timeline_id FROM pg_control_checkpoint()) AS timeline, "
    "(SELECT oid::int8 FROM pg_database WHERE datname = current_database()) AS oid"
)
SEES = text("SELECT current_user::text AS role, pg_has_role('pg_read_all_stats', 'USAGE') AS sees")
OTHERS = text(
    "SELECT pid, usename, application_name FROM pg_stat_activity WHERE datname = current_database() "
    "AND backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid"
)
TABLES = text(
    "SELECT c.oid::int8 AS oid, format('%I.%I', n.nspname, c.relname) AS quoted, "
    "CASE WHEN n.nspname = 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END AS name, "
    "CASE c.relkind WHEN 'p' THEN 0 ELSE greatest(c.reltuples, 0)::int8 END AS rows, pg_table_size(c.oid) AS bytes, pg_relation_filenode(c.oid)::int8 AS file "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname NOT LIKE 'pg\\_%' "
    "AND n.nspname NOT IN ('information_schema', 'pipestate') AND (SELECT string_agg(a.attname, ' ') "
    "FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) "
    "IS DISTINCT FROM 'version_num' ORDER BY pg_table_size(c.oid) DESC, 3"
)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the clone before the rehearsal; `quoted` is its name in SQL."""

    oid: int
    quoted: str
    name: str
    rows: int
    bytes: int
    file: int | None


@dataclass(frozen=True, slots=True)
class Server:
    """Which server and database a connection is on."""

    in_recovery: bool
    system: int
    timeline: int
    oid: int

    def is_primary_of(self, other: "Server") -> bool:
        """Say whether `other` follows this one: the same cluster and database, and it is still in recovery.

        A restored backup has the system's identifier, too; promoted, it has a timeline of its own.
        """
        same = (self.system, self.timeline, self.oid) == (other.system, other.timeline, other.oid)
        return same and other.in_recovery and not self.in_recovery


def require_clone(clone: URL, production: URL | None, locate: Locator) -> Position:
    """Refuse, in one sentence, a clone that must not be migrated or cannot be measured; say where it stands."""
    said = {"clone": shown(clone), "production": shown(production) if production else ""}
    if production is not None:
        _refuse_production(clone, production, said)
    with db.reader(clone) as connection:
        if not engine_of(clone).IS_FILE:
            _refuse_unfit(connection, said)
        there = locate(connection)
    if production is not None:
        with db.reader(production) as connection:
            here = locate(connection)
        if here.applied != there.applied:
            told = {"there": there.current or "base", "here": here.current or "base"}
            raise ConfigError(ELSEWHERE.format(**said, **told))
    return there


def _refuse_production(clone: URL, production: URL, said: dict[str, str]) -> None:
    if name_of(clone) != name_of(production):
        raise ConfigError(ENGINES.format(**said))
    choose(REFUSE_PRODUCTION, clone)(clone, production, said)


def _refuse_same_file(clone: URL, production: URL, said: dict[str, str]) -> None:
    if _same_file(clone, production):
        raise ConfigError(PRODUCTION.format(**said))


def _refuse_same_server(clone: URL, production: URL, said: dict[str, str]) -> None:
    with db.reader(clone) as connection:
        if is_same(connection, production):
            raise ConfigError(PRODUCTION.format(**said))
        with db.reader(production) as other:
            if _server(connection).is_primary_of(_server(other)):
                raise ConfigError(PRIMARY.format(**said))


REFUSE_PRODUCTION = {"postgresql": _refuse_same_server, "sqlite": _refuse_same_file}


def _same_file(one: URL, other: URL) -> bool:
    paths = [Path(url.database or "") for url in (one, other)]
    return all(path.is_file() for path in paths) and paths[0].samefile(paths[1])


def _server(connection: Connection) -> Server:
    return Server(**connection.execute(SERVER).one()._mapping)


def _refuse_unfit(connection: Connection, said: dict[str, str]) -> None:
    if connection.execute(text("SELECT pg_is_in_recovery()")).scalar_one():
        raise ConfigError(STANDBY.format(**said))
    role, sees = connection.execute(SEES).one()
    if not sees:
        raise ConfigError(BLIND.format(**said, role=role))
    others = connection.execute(OTHERS).all()
    if others:
        who = ", ".join(f"pid {row.pid} ({row.application_name or row.usename})" for row in others[:5])
        count = many(len(others), "other session is", "other sessions are")
        raise ConfigError(BUSY.format(**said, count=count, who=who))


@contextmanager
def migrated(clone: URL) -> Iterator[None]:
    """Say what becomes of the clone where Ctrl-C ends the run, or the clone vanishes."""
    with telling(lambda: HALF_MIGRATED):
        try:
            yield
        except Unreachable as error:
            if HALF_MIGRATED in str(error):
                raise
            raise Unreachable(f"the clone {shown(clone)} is lost: {error}; {HALF_MIGRATED}") from error


def vacuum(clone: URL) -> None:
    """VACUUM ANALYZE the clone: a restored one would be vacuumed on the way, and look many times slower."""
    with db.reachable(clone), db.engine_for(clone).connect() as plain:
        plain.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql("VACUUM (ANALYZE)")


def tables_of(clone: URL) -> list[Table]:
    """List the tables, the largest first; nobody but migrations waits for the ledger and the version table."""
    with db.reader(clone) as connection:
        return [Table(**row._mapping) for row in connection.execute(TABLES)]


def server_version(clone: URL) -> str:
    """Say which server or library the clone is on."""
    with db.reader(clone) as connection:
        version: Any = connection.dialect.server_version_info or ()
        return f"{connection.dialect.name} {'.'.join(str(part) for part in version)}".strip()
