"""Clone of a rehearsal: its requirements before anything runs, and its tables."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, text

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.core.text import many
from pipestate.database import connections as db
from pipestate.database.connections import engine_of, name_of
from pipestate.database.interrupt import explain_interrupt
from pipestate.database.queries import named_query
from pipestate.database.urls import shown
from pipestate.ledger.state import find_foreign_owner, make_own, read_ledger_state
from pipestate.project.find import Project
from pipestate.project.graph import Migrations, Position
from pipestate.project.version_table import Locator

PRODUCTION = (
    "{clone} is production itself ({production}), so nothing was run: --on takes a clone, such as a restored backup or "
    "CREATE DATABASE … TEMPLATE"
)
PRIMARY = "{clone} is the primary of {production}, so it is production itself and nothing was run: --on takes a clone"
STANDBY = (
    "{clone} is a standby, which cannot be migrated: rehearse on a clone of it, or promote a spare standby"
)
BLIND = (
    "the role {role} cannot see other sessions on {clone}, so its locks could not be distinguished from theirs: "
    "GRANT pg_monitor TO {role} is enough"
)
BUSY = (
    "{count} on {clone}, so their waits would be measured, too: {who}. End them, or take a clone of your own"
)
ELSEWHERE = "{clone} is at {there}, production ({production}) at {here}: rehearse on a clone that is at the same revision"
ENGINES = "{clone} and production ({production}) are of different engines: rehearse on a clone with production's engine"
HIDDEN_COLUMN = "^_pipestate_[0-9]+_"  # a contract renames dropped columns like this
HALF_MIGRATED = "the clone may be half migrated, so use a new one; production was not touched"
SERVER = named_query("rehearse", "server")
MAY_ADOPT = named_query("rehearse", "may_adopt")
SEES = named_query("rehearse", "sees")
OTHERS = named_query("rehearse", "other_sessions")
TABLES = named_query("rehearse", "tables")


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
    """The server and database of a connection."""

    in_recovery: bool
    system: int
    timeline: int
    oid: int

    def is_primary_of(self, other: "Server") -> bool:
        """Tell whether `other` replicates this one: the same cluster and database, and it is still in recovery.

        A restored backup has the same system identifier; a promoted one has another timeline.
        """
        same = (self.system, self.timeline, self.oid) == (other.system, other.timeline, other.oid)
        return same and other.in_recovery and not self.in_recovery


def require_clone(clone: URL, production: URL | None, locate: Locator) -> Position:
    """Refuse an unfit clone in one sentence; return its position."""
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
            places = {"there": there.current or "base", "here": here.current or "base"}
            raise ConfigError(ELSEWHERE.format(**said, **places))
    return there


def _refuse_production(clone: URL, production: URL, said: dict[str, str]) -> None:
    if name_of(clone) != name_of(production):
        raise ConfigError(ENGINES.format(**said))
    if engine_of(clone).IS_FILE:
        one, other = Path(clone.database or ""), Path(production.database or "")
        if one.is_file() and other.is_file() and one.samefile(other):
            raise ConfigError(PRODUCTION.format(**said))
        return
    with db.reader(clone) as connection:
        if db.is_same(connection, production):
            raise ConfigError(PRODUCTION.format(**said))
        with db.reader(production) as there:
            servers = [Server(**db.run_own(each, SERVER)[0]._mapping) for each in (connection, there)]
        if servers[0].is_primary_of(servers[1]):
            raise ConfigError(PRIMARY.format(**said))


def _refuse_unfit(connection: Connection, said: dict[str, str]) -> None:
    if connection.execute(text("SELECT pg_is_in_recovery()")).scalar_one():
        raise ConfigError(STANDBY.format(**said))
    ((role, sees),) = db.run_own(connection, SEES)
    if not sees:
        raise ConfigError(BLIND.format(**said, role=role))
    others = db.run_own(connection, OTHERS)
    if others:
        who = ", ".join(f"pid {row.pid} ({row.application_name or row.usename})" for row in others[:5])
        count = many(len(others), "other session is", "other sessions are")
        raise ConfigError(BUSY.format(**said, count=count, who=who))


@contextmanager
def migrated(clone: URL) -> Iterator[None]:
    """Add the state of the clone to the message after Ctrl-C or a lost connection."""
    with explain_interrupt(lambda: HALF_MIGRATED):
        try:
            yield
        except Unreachable as error:
            if HALF_MIGRATED in str(error):
                raise
            raise Unreachable(f"the clone {shown(clone)} is lost: {error}; {HALF_MIGRATED}") from error


def adopt_records(clone: URL) -> None:
    """Make production's sign-offs and soaks count on its clone, if the role may write its ledger."""
    with db.writer(clone) as connection:
        state = read_ledger_state(connection)
        is_ours = state.installed and not state.missing and find_foreign_owner(connection) is None
        if is_ours and db.run_own(connection, MAY_ADOPT)[0][0]:
            make_own(connection)


def vacuum(clone: URL) -> None:
    """VACUUM ANALYZE the clone: an autovacuum during the measurement would slow down a restored clone."""
    with db.autocommit(clone) as connection:
        connection.exec_driver_sql("VACUUM (ANALYZE)")


def tables_of(clone: URL) -> list[Table]:
    """List the tables, the largest first, except the ledger and the version table."""
    with db.reader(clone) as connection:
        return [Table(**row._mapping) for row in db.run_own(connection, TABLES)]


@dataclass(frozen=True, slots=True)
class Job:
    """A project and its clone; production is None if unknown."""

    clone: URL
    production: URL | None
    project: Project
    migrations: Migrations
    locate: Locator
    called: str | None = None

    @property
    def clone_name(self) -> str:
        """The clone's name in a result; a clone that we made has a label instead of its URL."""
        return self.called or shown(self.clone)
