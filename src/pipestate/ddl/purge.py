"""The end of an archive, on request only: what a contract put aside is really dropped."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, inspect, text
from sqlalchemy.types import DateTime, String

from pipestate.ddl.postgresql.locks import LOCK_KEY
from pipestate.errors import ConfigError
from pipestate.ledger.record import record_event
from pipestate.ledger.state import require_ledger

# Where each engine keeps its archive: the manifest, and what a name in it is called.
MANIFEST = {"postgresql": "pipestate_archive.manifest", "sqlite": "pipestate_archive_manifest"}
PREFIX = {"postgresql": "pipestate_archive.", "sqlite": "pipestate_archive_"}


@dataclass(frozen=True, slots=True)
class Archived:
    """One thing in the archive."""

    kind: str
    name: str
    table: str
    archived_at: datetime
    rows: int


def find(connection: Connection, older_than: timedelta) -> list[Archived]:
    """Find what is in the archive and old enough, oldest first."""
    dialect = connection.dialect.name
    schema = "pipestate_archive" if dialect == "postgresql" else None
    manifest = MANIFEST[dialect]
    if not inspect(connection).has_table(manifest.removeprefix("pipestate_archive."), schema=schema):
        return []
    query = text(f"SELECT kind, name, archived_at FROM {manifest} ORDER BY archived_at, kind, name").columns(
        kind=String, name=String, archived_at=DateTime(timezone=True)
    )
    found = [_archived(connection, *row) for row in connection.execute(query).all()]
    border = datetime.now(UTC) - older_than
    return [each for each in found if each is not None and each.archived_at <= border]


def drop(connection: Connection, things: list[Archived], *, revision: str | None) -> None:
    """Drop them, and write into the ledger that it was meant. The manifest keeps its entries."""
    require_ledger(connection)
    if connection.dialect.name == "postgresql":
        key = {"a": LOCK_KEY[0], "b": LOCK_KEY[1]}
        if not connection.scalar(text("SELECT pg_try_advisory_xact_lock(:a, :b)"), key):
            raise ConfigError("a migration is running on this database: run the same again when it is done")
    for thing in things:
        connection.execute(text(f"DROP TABLE {thing.table}"))
        reason = f"{thing.kind} {thing.name}: {thing.rows} rows"
        record_event(connection, "purge", revision=revision, reason=reason)


def _archived(connection: Connection, kind: str, name: str, at: datetime) -> Archived | None:
    dialect = connection.dialect.name
    bare = name if kind == "table" else f"{name}_columns"
    schema = "pipestate_archive" if dialect == "postgresql" else None
    physical = bare if dialect == "postgresql" else PREFIX[dialect] + bare
    if not inspect(connection).has_table(physical, schema=schema):
        return None
    quote = connection.dialect.identifier_preparer.quote
    table = f"{schema}.{quote(physical)}" if schema else quote(physical)
    rows = int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return Archived(kind, name, table, moment, rows)
