"""The end of an archive, on request only: what the contract put aside is really dropped."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, insert, inspect, text
from sqlalchemy.types import DateTime, String

from pipestate.errors import ConfigError
from pipestate.ledger.record import require_ledger, who
from pipestate.schema import pipestate_run

# Where each engine keeps its archive: the manifest, and what a name in it is called.
MANIFEST = {"postgresql": "pipestate_archive.manifest", "sqlite": "pipestate_archive_manifest"}
# What every migration of the chain holds (see migrations/locks.py).
MIGRATION_LOCK = (0x70697065, 0x73746174)
PREFIX = {"postgresql": "pipestate_archive.", "sqlite": "pipestate_archive_"}


@dataclass(frozen=True, slots=True)
class Archived:
    """One thing in the archive."""

    kind: str
    name: str
    table: str
    archived_at: datetime
    rows: int


def parse_age(text_: str) -> timedelta:
    """
    >>> parse_age("30d")
    datetime.timedelta(days=30)
    """
    found = re.fullmatch(r"(\d+)([dhm])", text_.strip())
    if found is None:
        raise ConfigError(f"--older-than {text_}: write 30d, 12h or 45m")
    unit = {"d": "days", "h": "hours", "m": "minutes"}[found[2]]
    return timedelta(**{unit: int(found[1])})


def find(connection: Connection, older_than: timedelta) -> list[Archived]:
    """What is in the archive and old enough, oldest first."""
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
        key = {"a": MIGRATION_LOCK[0], "b": MIGRATION_LOCK[1]}
        if not connection.scalar(text("SELECT pg_try_advisory_xact_lock(:a, :b)"), key):
            raise ConfigError("a migration is running on this database: run the same again when it is done")
    for thing in things:
        connection.execute(text(f"DROP TABLE {thing.table}"))
        entry = {
            "event": "purge",
            "actor": who(),
            "runbook": "sites-consolidation",
            "phase": "cleanup",
            "gate": "past",
            "runbook_sha256": "",
            "revision": revision,
            "reason": f"{thing.kind} {thing.name}: {thing.rows} rows",
        }
        connection.execute(insert(pipestate_run).values(entry))


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
