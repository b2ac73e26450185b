"""Table definitions of the ledger: in the schema `pipestate`, on SQLite with the prefix `pipestate_`.

Text columns are unlimited, so a long revision or runbook name cannot stop a gate. Times come from the
server's clock at the moment of writing; a transaction's start time may be an hour old.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Float,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from pipestate.database.connections import choose
from pipestate.database.queries import named_query

SCHEMA = "pipestate"
VIEWS = (
    *("observed", "latest_observation", "soak_since", "soak", "sign_off"),
    *("backfill", "rehearsed", "compat", "drift", "disuse", "running_release"),
)
KEPT = "the ledger has rows, so this downgrade keeps it; the next upgrade uses it again"
# PostgreSQL hides soft-dropped columns in place; SQLite copies them and has a separate manifest.
HIDES = {"postgresql": True, "sqlite": False}
CLOCK = {"postgresql": "clock_timestamp()", "sqlite": "(strftime('%Y-%m-%d %H:%M:%f', 'now'))"}
ROLE = {"postgresql": text("current_user"), "sqlite": None}

Json = JSON().with_variant(JSONB(), "postgresql")
BigId = BigInteger().with_variant(Integer(), "sqlite")


@dataclass(frozen=True, slots=True)
class Naming:
    """Naming of the ledger's tables and views: in a schema, or with a prefix."""

    schema: str | None
    prefix: str = ""


NAMING = {"postgresql": Naming(SCHEMA), "sqlite": Naming(None, f"{SCHEMA}_")}


def qualified(name: str, dialect: str) -> str:
    """Return the full name of a ledger table or view.

    >>> qualified("run", "postgresql"), qualified("run", "sqlite")
    ('pipestate.run', 'pipestate_run')
    """
    naming = choose(NAMING, dialect)
    return f"{naming.schema}.{name}" if naming.schema else f"{naming.prefix}{name}"


query = partial(named_query, "ledger")


def in_utc(moment: datetime) -> datetime:
    """Add the UTC zone to a time from SQLite, which stores none."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


@dataclass(frozen=True, slots=True)
class Ledger:
    """Tables on one engine. `objects` registers the objects that the migrations created, for their downgrades."""

    metadata: MetaData
    objects: Table
    soft_drop: Table | None  # SQLite has a separate manifest
    run: Table
    result: Table
    attestation: Table
    observation: Table
    backfill_progress: Table
    rehearsal: Table
    statement_calls: Table
    schema_record: Table

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return all tables in field order, which is their creation order."""
        found = (getattr(self, each.name) for each in fields(self))
        return tuple(table for table in found if isinstance(table, Table))


@cache
def ledger_on(dialect: str) -> Ledger:
    """Build the tables for an engine, `postgresql` or `sqlite`."""
    metadata = MetaData(schema=choose(NAMING, dialect).schema)
    build = _Builder(dialect, metadata)
    made = {each.name: getattr(build, each.name)() for each in fields(Ledger) if each.name != "metadata"}
    return Ledger(metadata, **made)


@dataclass(frozen=True, slots=True)
class _Builder:
    dialect: str
    metadata: MetaData

    def run(self) -> Table:
        """One row per phase of a run, or per event outside a phase: a purge, an upgrade.

        `actor` is the person, `role` the database role. An upgrade or downgrade has the revision's title, the
        SHA-256 of its file, the version table of its migrations, and the dropped objects. `phase_sha256` is the
        hash of the evaluated phase. `database` is the one in which the row was written.
        """
        counts = (_count(name) for name in ("passed", "failed", "warned", "errored", "skipped"))
        return self.table(
            "run",
            self.time("recorded_at"),
            *_texts("event", "actor", nullable=False),
            *_texts("runbook", "phase", "gate", "runbook_sha256", "revision"),
            *counts,
            Column("duration_ms", Float),
            _text("reason"),
            Column("role", Text, server_default=ROLE[self.dialect]),
            *_texts("title", "file_sha256", "version_table"),
            Column("dropped", Json),
            *_texts("phase_sha256", "database"),
            Index("idx_pipestate_run_phase", "runbook", "phase", "recorded_at"),
        )

    def result(self) -> Table:
        """One row per check of a run."""
        run = f"{qualified('run', self.dialect)}.id"
        return self.table(
            "result",
            Column("run_id", BigId, nullable=False),
            *_texts("check_id", "outcome", "level", nullable=False),
            _text("required"),
            Column("observed", Json),
            _text("message"),
            Column("duration_ms", Float),
            ForeignKeyConstraint(["run_id"], [run], "fk_pipestate_result_run", ondelete="CASCADE"),
            Index("idx_pipestate_result_run", "run_id"),
        )

    def attestation(self) -> Table:
        """One row per sign-off: `text_sha256` is the hash of the signed text, `database` where it was signed."""
        return self.table(
            "attestation",
            self.time("signed_at"),
            *_texts("runbook", "phase", "name", "person", nullable=False),
            *_texts("note", "revision", "text_sha256", "database"),
            CheckConstraint("trim(person) <> ''", name="ck_pipestate_attestation_person"),
            Index("idx_pipestate_attestation_name", "runbook", "phase", "name", "signed_at"),
        )

    def observation(self) -> Table:
        """One row per outside fact."""
        return self.table(
            "observation",
            self.time("observed_at"),
            _text("name", nullable=False),
            Column("value", Float, nullable=False),
            *_texts("source", "actor", nullable=False),
            _text("revision"),
            Index("idx_pipestate_observation_name", "name", "observed_at", "id"),
        )

    def backfill_progress(self) -> Table:
        """One row per backfill run, updated in the transaction of each of its batches.

        Keys are stored as text, in the server's format. The next batch resumes after `last_key`. `rows_left`
        is NULL until all ranges were walked and the remaining matches were counted. Another terminal sets
        `paused_at`, `paused_by` and `batch_rows`; the run reads them before each batch.
        """
        return self.table(
            "backfill_progress",
            *_texts("runbook", "name", "table_name", "key_column", "sql_sha256", "actor", nullable=False),
            *_texts("revision", "first_key", "last_key"),
            *(_count(name, BigInteger) for name in ("rows_seen", "rows_expected", "rows_updated")),
            Column("rows_left", BigInteger),
            _count("batches"),
            self.time("started_at"),
            self.time("updated_at"),
            *_moments("finished_at", "paused_at"),
            _text("paused_by"),
            Column("batch_rows", Integer),
            Index("idx_pipestate_backfill_progress_name", "runbook", "name", "id"),
        )

    def rehearsal(self) -> Table:
        """One row per rehearsal: the hashes of the executed files, and the impact; NULL after a failure.

        `kind` is `rehearse`, or `compat` for a run that prepared statements and measured nothing. `watch` has
        the data for the view `disuse`: changed names, broken statements and harmless statements.
        """
        return self.table(
            "rehearsal",
            self.time("rehearsed_at"),
            _text("actor", nullable=False),
            *_texts("revision", "target"),
            Column("files", Json, nullable=False),
            _text("clone", nullable=False),
            _count("rows", BigInteger),
            *(Column(name, Float) for name in ("longest_wait_ms", "idle_wait_ms")),
            *(Column(name, Boolean) for name in ("bounded", "ok")),
            Column("duration_ms", Float),
            Column("kind", Text, server_default=text("'rehearse'"), nullable=False),
            Column("tables", Json),
            Column("scale", Float),
            *(Column(name, Integer) for name in ("statements", "broken", "changed", "unprepared")),
            _text("database"),
            Column("watch", Json),
        )

    def statement_calls(self) -> Table:
        """One row per observation of pg_stat_statements for one contract; the view `disuse` compares them.

        `contract` is the digest in a rehearsal's `watch`. `calls` has the statements that name a changed
        table.
        """
        return self.table(
            "statement_calls",
            self.time("observed_at"),
            *_texts("actor", "contract", "server", nullable=False),
            *_texts("database", "fault"),
            *_moments("started_at", "stats_reset"),
            Column("evictions", BigInteger),
            _count("standbys"),
            Column("calls", Json, nullable=False),
            Index("idx_pipestate_statement_calls_contract", "contract", "id"),
        )

    def schema_record(self) -> Table:
        """One row per guarded run: a digest of every object's definition, which the view `drift` compares.

        `objects` is an array of [schema, kind, name, digest]; docs/reference/ledger.md explains the rest.
        """
        return self.table(
            "schema_record",
            self.time("recorded_at"),
            _text("revision"),
            *_texts("actor", "method", nullable=False),
            _text("xid"),
            Column("catalogues", Json),
            Column("objects", Json, nullable=False),
        )

    def objects(self) -> Table:
        """One row per table, column, index or constraint that the migrations created and may drop."""
        return self.table(
            "object",
            *_texts("kind", "name", "revision", nullable=False),
            self.time("created_at"),
            key=("kind", "name"),
        )

    def soft_drop(self) -> Table | None:
        """One row per soft-dropped table, or per table with soft-dropped columns; none on SQLite.

        `xact` is the xmin of the row itself; a different value means that the row was loaded from a dump.
        `writers` says who ran beside the soft drop: `running_writers` in the server.
        """
        if not HIDES[self.dialect]:
            return None
        return self.table(
            "soft_drop",
            _text("revision", nullable=False),
            _text("gate"),
            *_texts("kind", "schema_name", "table_name", "name", nullable=False),
            *(Column(name, Json) for name in ("columns", "removed", "renamed")),
            Column("held", Boolean),
            _text("state", nullable=False),
            Column("xact", BigInteger),
            Column("writers", Json),
            self.time("dropped_at"),
            *_moments("restored_at", "purged_at"),
            CheckConstraint(
                "state IN ('hidden', 'validating', 'restored', 'purged', 'absent')",
                name="ck_pipestate_soft_drop_state",
            ),
        )

    def table(self, name: str, *parts: Any, key: Sequence[str] = ("id",)) -> Table:
        """Build a table with its primary key; `id` is the first column."""
        own = [Column("id", BigId, Identity(), nullable=False)] if key == ("id",) else []
        primary = PrimaryKeyConstraint(*key, name=f"pk_pipestate_{name}")
        return Table(f"{NAMING[self.dialect].prefix}{name}", self.metadata, *own, *parts, primary)

    def time(self, name: str) -> Column[Any]:
        return Column(name, DateTime(timezone=True), server_default=text(CLOCK[self.dialect]), nullable=False)


def _text(name: str, *, nullable: bool = True) -> Column[Any]:
    return Column(name, Text, nullable=nullable)


def _texts(*names: str, nullable: bool = True) -> list[Column[Any]]:
    return [_text(name, nullable=nullable) for name in names]


def _moments(*names: str) -> list[Column[Any]]:
    return [Column(name, DateTime(timezone=True)) for name in names]


def _count(name: str, kind: type[Integer] = Integer) -> Column[Any]:
    return Column(name, kind, server_default=text("0"), nullable=False)
