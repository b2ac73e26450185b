"""The end of an archive, on request only: what a contract put aside is really dropped."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, inspect, text
from sqlalchemy.types import DateTime

from pipestate.ddl.postgresql.locks import LOCK_KEY
from pipestate.engines.choice import choose
from pipestate.errors import ConfigError
from pipestate.ledger.record import record_event
from pipestate.ledger.state import has_ledger

# Names stand in SQL as they are: `%` and `:` in one are no parameters.
AS_WRITTEN = {"no_parameters": True}


@dataclass(frozen=True, slots=True)
class Manifest:
    """Where an engine keeps the manifest of its archive, and how SQL finds a table that it names as `:aside`."""

    schema: str | None
    name: str
    there: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


MANIFESTS = {
    "postgresql": Manifest("pipestate_archive", "manifest", "to_regclass(:aside)"),
    "sqlite": Manifest(
        None,
        "pipestate_archive_manifest",
        "(SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = trim(:aside, '\"'))",
    ),
}


@dataclass(frozen=True, slots=True)
class Archived:
    """One thing in the archive."""

    kind: str
    name: str
    table: str
    archived_at: datetime
    rows: int
    also: str | None = None  # a table that goes with it: when each row of its replacement was changed
    is_returning: bool = False  # a way back was begun, and has not come to its end


def find(connection: Connection, older_than: timedelta) -> list[Archived]:
    """Find what is in the archive and old enough, oldest first."""
    manifest = choose(MANIFESTS, connection)
    if not inspect(connection).has_table(manifest.name, schema=manifest.schema):
        return []
    query = text(
        f"SELECT kind, name, aside, definition ->> 'baseline' AS also, "
        f"definition ->> 'returning' IS NOT NULL AS is_returning, archived_at FROM {manifest} "
        "WHERE aside IS NOT NULL ORDER BY archived_at, kind, name"
    ).columns(archived_at=DateTime(timezone=True))
    found = [_archived(connection, *row) for row in connection.execute(query).all()]
    border = datetime.now(UTC) - older_than
    return [each for each in found if each is not None and each.archived_at <= border]


def drop(connection: Connection, things: list[Archived], *, revision: str | None) -> bool:
    """Drop them, and write it into the ledger, where there is one; say whether. The manifest keeps its entries."""
    keeps = has_ledger(connection)
    if not choose(MAY_GO_ON, connection)(connection):
        raise ConfigError("a migration is running on this database: run the same again when it is done")
    if returning := [thing.name for thing in things if thing.is_returning]:
        raise ConfigError(
            f"columns of {', '.join(returning)} are on their way back, and their values are nowhere else: run the "
            "downgrade to its end, then the same again"
        )
    for thing in things:
        connection.exec_driver_sql(f"DROP TABLE {thing.table}", execution_options=AS_WRITTEN)
        if thing.also is not None:
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {thing.also}", execution_options=AS_WRITTEN)
        if keeps:
            reason = f"{thing.kind} {thing.name}: {thing.rows} rows"
            record_event(connection, "purge", revision=revision, reason=reason)
    return keeps


def _takes_migration_lock(connection: Connection) -> bool:
    key = {"a": LOCK_KEY[0], "b": LOCK_KEY[1]}
    return bool(connection.scalar(text("SELECT pg_try_advisory_xact_lock(:a, :b)"), key))


def _writes_alone(connection: Connection) -> bool:
    """Say yes: a file has one writer."""
    del connection
    return True


MAY_GO_ON = {"postgresql": _takes_migration_lock, "sqlite": _writes_alone}


def _archived(
    connection: Connection,
    kind: str,
    name: str,
    aside: str,
    also: str | None,
    is_returning: bool,
    at: datetime,
) -> Archived | None:
    """Read one entry of the manifest, which has names as they stand in SQL; None where its table is gone already."""
    there = choose(MANIFESTS, connection).there
    if connection.execute(text(f"SELECT {there} IS NULL"), {"aside": aside}).scalar():
        return None
    count = connection.exec_driver_sql(f"SELECT count(*) FROM {aside}", execution_options=AS_WRITTEN)
    rows = int(count.scalar_one())
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return Archived(kind, name, aside, moment, rows, also, bool(is_returning))
