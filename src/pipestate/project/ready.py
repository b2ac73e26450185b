"""Readiness: compare the applied revisions of a database with this code's migrations.

Deployments start many processes at once, so the comparison takes one query and no lock.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import URL, Connection
from sqlalchemy.exc import ProgrammingError

from pipestate.core.errors import Unreachable
from pipestate.core.text import listed
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.drivers import run_as_written
from pipestate.project.graph import Migrations
from pipestate.project.version_table import DEFAULT, Locator

PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Readiness:
    """The revisions in the version table (None if it is missing), and the pending revisions."""

    stored: tuple[str, ...] | None
    missing: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.missing

    @property
    def sentence(self) -> str:
        """Describe the readiness in one line."""
        at = " ".join(self.stored or ()) or "base"
        if not self.missing and self.unknown:
            newer = " ".join(self.unknown)
            return f"ready: the database is at {at}, newer than this code, which does not know {newer}"
        if not self.missing:
            return f"ready: the database is at {at}"
        where = "has no version table" if self.stored is None else f"is at {at}"
        return f"behind: the database {where} and lacks {listed(self.missing)}"


def compare(migrations: Migrations, stored: tuple[str, ...] | None) -> Readiness:
    """Compare the revisions in a version table with the migrations.

    An unknown revision is newer than this code, so all migrations count as applied. The exception is a
    table that also holds a known revision with a known successor: Alembic would have replaced that revision.
    """
    known = [revision for revision in stored or () if revision in migrations]
    unknown = tuple(revision for revision in stored or () if revision not in migrations)
    applied = migrations.ancestors(known)
    missing = tuple(revision.id for revision in migrations if revision.id not in applied)
    if unknown and set(known) <= set(migrations.heads):
        missing = ()
    return Readiness(stored, missing, unknown)


def read_readiness(url: URL, locate: Locator) -> Readiness:
    """Connect and compare. Raise Unreachable, or ConfigError if the version table is uncertain."""
    if locate.declared.certain and not engine_of(url).IS_FILE:
        try:
            with db.reader(url) as connection:
                return compare(locate.migrations, _stored_by_name(connection, locate))
        except Unreachable as error:
            if not isinstance(error.__cause__, ProgrammingError):
                raise
            # The table or the right to read it is missing: the search through the catalogue finds the reason.
    with db.reader(url) as connection:
        return compare(locate.migrations, locate.stored(connection))


def _stored_by_name(connection: Connection, locate: Locator) -> tuple[str, ...]:
    declared = locate.declared
    quote = connection.dialect.identifier_preparer.quote_identifier
    name = ".".join(quote(part) for part in (declared.schema, declared.table or DEFAULT) if part)
    rows = run_as_written(connection, f"SELECT version_num FROM {name} ORDER BY 1")
    return tuple(str(row[0]) for row in rows)


def wait_until_ready(
    read: Callable[[], Readiness],
    patience_s: float,
    tell: Callable[[str], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Readiness:
    """Poll until the database is ready or the time is over; `tell` gets each new reason to wait.

    An unreachable database is retried. If it is still unreachable at the end, Unreachable is raised.
    """
    end, last = clock() + patience_s, ""
    while True:
        found: Readiness | Unreachable
        try:
            found = read()
        except Unreachable as error:
            found = error
        left = end - clock()
        if (isinstance(found, Readiness) and found.ok) or left <= 0:
            break
        said = found.sentence if isinstance(found, Readiness) else str(found)
        if said != last:
            tell(f"waiting: {said}")
            last = said
        sleep(min(left, PAUSE_S * random.uniform(0.5, 1.5)))
    if isinstance(found, Unreachable):
        raise found
    return found
