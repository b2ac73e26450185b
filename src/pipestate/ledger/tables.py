"""The ledger's tables, defined once: in the schema `pipestate`, on SQLite with the prefix `pipestate_`.

Text has no length: a long revision or runbook name must not be what stops a gate. Times come from the
server's clock at the moment of writing, not from the start of a transaction that may be an hour old.
"""

from dataclasses import dataclass
from functools import cache
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

from pipestate.engines.choice import choose

SCHEMA = "pipestate"
VIEWS = (
    *("observed", "latest_observation", "soak_since", "soak", "sign_off"),
    *("backfill", "rehearsed", "compat"),
)
KEPT = "the ledger has rows, so this downgrade leaves it as it is; the next upgrade finds it again"
CLOCK = {"postgresql": "clock_timestamp()", "sqlite": "(strftime('%Y-%m-%d %H:%M:%f', 'now'))"}

Json = JSON().with_variant(JSONB(), "postgresql")
BigId = BigInteger().with_variant(Integer(), "sqlite")


@dataclass(frozen=True, slots=True)
class Naming:
    """How the names of the ledger's tables and views are made: in a schema, or with a prefix."""

    schema: str | None
    prefix: str = ""

    def qualified(self, name: str) -> str:
        """Write the full name of a table or view."""
        return f"{self.schema}.{name}" if self.schema else f"{self.prefix}{name}"


NAMING = {"postgresql": Naming(SCHEMA), "sqlite": Naming(None, f"{SCHEMA}_")}


def qualified(name: str, dialect: str) -> str:
    """The full name of a table or view of the ledger.

    >>> qualified("run", "postgresql"), qualified("run", "sqlite")
    ('pipestate.run', 'pipestate_run')
    """
    return choose(NAMING, dialect).qualified(name)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The tables on one engine. `objects` is what a chain created, for its downgrades."""

    metadata: MetaData
    run: Table
    result: Table
    attestation: Table
    observation: Table
    backfill_progress: Table
    rehearsal: Table
    objects: Table

    @property
    def tables(self) -> tuple[Table, ...]:
        """All of them, in the order in which they can be created."""
        return (
            self.objects,
            self.run,
            self.result,
            self.attestation,
            self.observation,
            self.backfill_progress,
            self.rehearsal,
        )


@cache
def ledger_on(dialect: str) -> Ledger:
    """Build the tables for an engine, `postgresql` or `sqlite`."""
    metadata = MetaData(schema=choose(NAMING, dialect).schema)
    build = _Builder(dialect, metadata)
    return Ledger(
        metadata,
        build.run(),
        build.result(),
        build.attestation(),
        build.observation(),
        build.backfill_progress(),
        build.rehearsal(),
        build.objects(),
    )


@dataclass(frozen=True, slots=True)
class _Builder:
    dialect: str
    metadata: MetaData

    def run(self) -> Table:
        """One row a phase of a run, or one row an event that has no phase: a purge, an upgrade."""
        counts = (_count(name) for name in ("passed", "failed", "warned", "errored", "skipped"))
        return self.table(
            "run",
            _id(),
            self.time("recorded_at"),
            _text("event", nullable=False),
            _text("actor", nullable=False),
            _text("runbook"),
            _text("phase"),
            _text("gate"),
            _text("runbook_sha256"),
            _text("revision"),
            *counts,
            Column("duration_ms", Float),
            _text("reason"),
            PrimaryKeyConstraint("id", name="pk_pipestate_run"),
            Index("idx_pipestate_run_phase", "runbook", "phase", "recorded_at"),
        )

    def result(self) -> Table:
        """One row a check of a run."""
        return self.table(
            "result",
            _id(),
            Column("run_id", BigId, nullable=False),
            _text("check_id", nullable=False),
            _text("outcome", nullable=False),
            _text("level", nullable=False),
            _text("required"),
            Column("observed", Json),
            _text("message"),
            Column("duration_ms", Float),
            PrimaryKeyConstraint("id", name="pk_pipestate_result"),
            ForeignKeyConstraint(
                ["run_id"],
                [f"{qualified('run', self.dialect)}.id"],
                name="fk_pipestate_result_run",
                ondelete="CASCADE",
            ),
            Index("idx_pipestate_result_run", "run_id"),
        )

    def attestation(self) -> Table:
        """One row a person's word."""
        return self.table(
            "attestation",
            _id(),
            self.time("signed_at"),
            _text("runbook", nullable=False),
            _text("phase", nullable=False),
            _text("name", nullable=False),
            _text("person", nullable=False),
            _text("note"),
            _text("revision"),
            PrimaryKeyConstraint("id", name="pk_pipestate_attestation"),
            CheckConstraint("trim(person) <> ''", name="ck_pipestate_attestation_person"),
            Index("idx_pipestate_attestation_name", "runbook", "phase", "name", "signed_at"),
        )

    def observation(self) -> Table:
        """One row an outside fact."""
        return self.table(
            "observation",
            _id(),
            self.time("observed_at"),
            _text("name", nullable=False),
            Column("value", Float, nullable=False),
            _text("source", nullable=False),
            _text("actor", nullable=False),
            _text("revision"),
            PrimaryKeyConstraint("id", name="pk_pipestate_observation"),
            Index("idx_pipestate_observation_name", "name", "observed_at", "id"),
        )

    def backfill_progress(self) -> Table:
        """One row a run of a backfill, brought up to date in the transaction of each of its batches.

        The keys are texts, as the server writes them. `last_key` is where the next batch goes on; `rows_left` is
        NULL until all ranges were walked and what still matches was counted.
        """
        return self.table(
            "backfill_progress",
            _id(),
            _text("runbook", nullable=False),
            _text("name", nullable=False),
            _text("table_name", nullable=False),
            _text("key_column", nullable=False),
            _text("sql_sha256", nullable=False),
            _text("actor", nullable=False),
            _text("revision"),
            _text("first_key"),
            _text("last_key"),
            _big_count("rows_seen"),
            _big_count("rows_expected"),
            _big_count("rows_updated"),
            Column("rows_left", BigInteger),
            _count("batches"),
            self.time("started_at"),
            self.time("updated_at"),
            Column("finished_at", DateTime(timezone=True)),
            PrimaryKeyConstraint("id", name="pk_pipestate_backfill_progress"),
            Index("idx_pipestate_backfill_progress_name", "runbook", "name", "id"),
        )

    def rehearsal(self) -> Table:
        """One row a rehearsal: the hashes of the files that ran, and what was felt; unknown where one failed.

        `kind` is `rehearse`, or `compat` for one in which statements were prepared and nothing was measured.
        """
        return self.table(
            "rehearsal",
            _id(),
            self.time("rehearsed_at"),
            _text("actor", nullable=False),
            _text("revision"),
            _text("target"),
            Column("files", Json, nullable=False),
            _text("clone", nullable=False),
            _big_count("rows"),
            Column("longest_stall_ms", Float),
            Column("noise_ms", Float),
            Column("bounded", Boolean),
            Column("ok", Boolean),
            Column("duration_ms", Float),
            Column("kind", Text, server_default=text("'rehearse'"), nullable=False),
            Column("tables", Json),
            Column("scale", Float),
            Column("statements", Integer),
            Column("broken", Integer),
            Column("changed", Integer),
            Column("unprepared", Integer),
            PrimaryKeyConstraint("id", name="pk_pipestate_rehearsal"),
        )

    def objects(self) -> Table:
        """One row a table, column, index or constraint that a chain created and may drop."""
        return self.table(
            "object",
            _text("kind", nullable=False),
            _text("name", nullable=False),
            _text("revision", nullable=False),
            self.time("created_at"),
            PrimaryKeyConstraint("kind", "name", name="pk_pipestate_object"),
        )

    def table(self, name: str, *parts: Any) -> Table:
        return Table(f"{NAMING[self.dialect].prefix}{name}", self.metadata, *parts)

    def time(self, name: str) -> Column[Any]:
        return Column(name, DateTime(timezone=True), server_default=text(CLOCK[self.dialect]), nullable=False)


def _id() -> Column[Any]:
    return Column("id", BigId, Identity(), nullable=False)


def _text(name: str, *, nullable: bool = True) -> Column[Any]:
    return Column(name, Text, nullable=nullable)


def _big_count(name: str) -> Column[Any]:
    return Column(name, BigInteger, server_default=text("0"), nullable=False)


def _count(name: str) -> Column[Any]:
    return Column(name, Integer, server_default=text("0"), nullable=False)
