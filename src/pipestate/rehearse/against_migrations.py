"""Drift beside the migrations: the database is compared with what its revisions build on an empty scratch database.

The scratch database is an embedded PostgreSQL of the database's version, or a new SQLite file. The child process
of a rehearsal upgrades it through the project's env.py. The database itself is only read.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import URL, Connection

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.database import connections as db
from pipestate.database.connections import choose, engine_of, run_own
from pipestate.database.drivers import run_as_written
from pipestate.database.embedded import embedded_versions
from pipestate.database.queries import named_query
from pipestate.database.urls import shown
from pipestate.ledger.drift import Difference, Drift, definitions_query, definitions_settings, named
from pipestate.ledger.install import install
from pipestate.ledger.state import has_ledger
from pipestate.project.graph import Migrations, Position
from pipestate.rehearse.child_process import Step, Trace, refusal, run_child
from pipestate.rehearse.clone import Job
from pipestate.rehearse.copying.fill import apply_settings, create_database
from pipestate.rehearse.copying.make import TemporaryPlace, clone_server, temporary_place
from pipestate.rehearse.copying.snapshot import read_production, session

Key = tuple[str, str, str]  # schema, kind, name
# Another major version may write the query of these differently; only their existence is compared then.
REWORDED = frozenset({"view", "materialized view", "rule"})
MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"
NO_REVISION = (
    "{url} has no revision of this project, so nothing can be compared: migrate it, or set its revision with alembic "
    "stamp"
)
NOT_FROM_BASE = (
    "the migrations do not run from base on an empty database, so nothing was compared: {where}{why}"
)
HIDDEN = re.compile(r"\b_pipestate_[0-9]+_")  # a contract renames dropped columns and constraints like this
LEFT_OUT = named_query("rehearse", "left_out_of_drift")


@dataclass(frozen=True, slots=True)
class Schema:
    """The definitions of a database's objects, and the objects that are not compared."""

    definitions: dict[Key, str]
    left_out: frozenset[Key]


def compare_with_migrations(job: Job, say: Callable[[str], None] = print) -> Drift:
    """Build the database's revision on a scratch database, and compare both; `job.clone` is the database."""
    with db.reader(job.clone) as connection:
        position = job.locate(connection)
        if position.current is None:
            raise ConfigError(NO_REVISION.format(url=shown(job.clone)))
        has_records = has_ledger(connection)
        here = read_schema(connection, position)
        major = _major(connection)
    with temporary_place() as place, choose(SCRATCH, job.clone)(job.clone, place, say) as (scratch, built_on):
        if has_records:
            with db.writer(scratch) as connection:
                install(connection)
        say(f"building revision {position.current} from base on {built_on}")
        _build(replace(job, clone=scratch), position)
        with db.reader(scratch) as connection:
            there = read_schema(connection, job.locate(connection))
            by_name = frozenset[str]() if _major(connection) == major else REWORDED
    return Drift(position.current, None, tuple(compare(there, here, by_name)))


def _major(connection: Connection) -> int | None:
    """Return the server's major version; a file has none."""
    version = connection.dialect.server_version_info
    return None if engine_of(connection).IS_FILE or version is None else int(version[0])


def compare(
    migrations: Schema, database: Schema, by_name: frozenset[str] = frozenset()
) -> Iterator[Difference]:
    """Name each object that is missing, extra or different in the database; `by_name` are kinds without a definition.

    >>> built = Schema({("public", "table", "a"): "", ("public", "table", "b"): "x"}, frozenset())
    >>> [str(each) for each in compare(built, Schema({("public", "table", "b"): "y"}, frozenset()))]
    ['table a missing', 'table b different']
    """
    left_out = migrations.left_out | database.left_out
    for key in sorted({*migrations.definitions, *database.definitions} - left_out):
        schema, kind, name = key
        wanted, found = migrations.definitions.get(key), database.definitions.get(key)
        if wanted != found and not (kind in by_name and wanted is not None and found is not None):
            change = MISSING if found is None else EXTRA if wanted is None else DIFFERENT
            yield Difference(kind, named(schema, name), change)


def read_schema(connection: Connection, position: Position) -> Schema:
    """Read the definitions that drift compares, and name those of pipestate and of the version table."""
    dialect = connection.dialect.name
    for setting in definitions_settings(dialect):
        run_as_written(connection, setting)
    rows = run_as_written(connection, definitions_query(dialect)).all()
    found = {(row.schema, row.kind, row.name): str(row.definition) for row in rows if not row.left_out}
    versions = position.version_table or ""
    own = {key for key in found if _is_of(versions, key) or HIDDEN.search(found[key])}
    if not engine_of(connection).IS_FILE:
        own |= {(row[0], row[1], row[2]) for row in run_own(connection, LEFT_OUT, versions=versions)}
    return Schema(found, frozenset(own))


def _is_of(versions: str, key: Key) -> bool:
    """Tell whether an object is the version table, or a part that carries its name."""
    *schema, table = [
        part.strip('"').replace('""', '"') for part in re.findall(r'"(?:[^"]|"")+"', versions)
    ] or [""]
    name = key[2] if key[1] in ("table", "column", "constraint") else ""
    return bool(table) and key[0] == (schema[0] if schema else "") and (name + ".").startswith(table + ".")


@contextmanager
def _server(url: URL, place: TemporaryPlace, say: Callable[[str], None]) -> Iterator[tuple[URL, str]]:
    """Start a server of the database's version, with its roles, name, locale and settings."""
    found = read_production(url)
    versions = embedded_versions()
    version = next((each for each in versions if each >= found.version), versions[-1])
    if version != found.version:
        say(
            f"the database is PostgreSQL {found.version} and the embedded server {version}, which may word queries "
            "differently: views and rules are compared by name alone"
        )
    with clone_server(version, place) as admin:
        scratch, _ = create_database(admin, found)
        with session(scratch, autocommit=True) as driver:
            apply_settings(driver, found)
        yield scratch, f"an embedded PostgreSQL {version}"


@contextmanager
def _file(url: URL, place: TemporaryPlace, say: Callable[[str], None]) -> Iterator[tuple[URL, str]]:
    del say
    yield url.set(database=str(place.directory / "scratch.db")), "a new SQLite file"


SCRATCH = {"postgresql": _server, "sqlite": _file}


def _build(job: Job, position: Position) -> None:
    """Upgrade the scratch database to the database's revision; raise if a revision fails."""
    trace = run_child(job, steps_to(job.migrations, position))
    if trace.failure is None:
        return
    if not trace.begun and trace.failure.exit_code == ConfigError.exit_code:
        raise refusal(trace)
    raise Unreachable(NOT_FROM_BASE.format(where=_where(trace), why=trace.failure.message))


def _where(trace: Trace) -> str:
    assert trace.failure is not None
    if trace.failure.source:
        return f"{trace.failure.source}: "
    return f"revision {trace.begun[-1].revision}: " if trace.begun else ""


def steps_to(migrations: Migrations, position: Position) -> Sequence[Step]:
    """List the upgrades: one to each gated revision, because a forced run passes one gate, then to the current ones."""
    gated = [each.id for each in migrations if each.id in position.applied and each.gates]
    current = [each for each in (position.current or "").split() if each not in gated[-1:]]
    return [("upgrade", target) for target in (*gated, *current)]
