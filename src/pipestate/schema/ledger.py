"""The ledger: runs, sign-offs, observations, reconciliations, and what the chain created."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    Float,
    Identity,
    Index,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from pipestate.schema.base import BigId, Json, count, metadata, time

pipestate_object = Table(
    "pipestate_object",
    metadata,
    Column("kind", String(20), nullable=False),
    Column("name", String(200), nullable=False),
    Column("revision", String(32), nullable=False),
    time("created_at", default=True),
    PrimaryKeyConstraint("kind", "name", name="pk_pipestate_object"),
)

pipestate_run = Table(
    "pipestate_run",
    metadata,
    Column("id", BigId, Identity(), nullable=False),
    time("recorded_at", default=True),
    Column("actor", String, nullable=False),
    Column("event", String(20), nullable=False),
    Column("runbook", String(100), nullable=False),
    Column("phase", String(100), nullable=False),
    Column("gate", String(20), nullable=False),
    Column("runbook_sha256", String(64), nullable=False),
    Column("revision", String(32)),
    count("passed"),
    count("failed"),
    count("warned"),
    count("errored"),
    count("skipped"),
    Column("duration_ms", Float),
    Column("reason", Text),
    Column("details", Json),
    PrimaryKeyConstraint("id", name="pk_pipestate_run"),
    CheckConstraint("event IN ('verify', 'gate', 'force', 'purge')", name="ck_pipestate_run_event"),
    Index("idx_pipestate_run_phase", "runbook", "phase", "recorded_at"),
)

pipestate_attestation = Table(
    "pipestate_attestation",
    metadata,
    Column("id", BigId, Identity(), nullable=False),
    Column("name", String(100), nullable=False),
    Column("attested_by", String, nullable=False),
    Column("note", Text),
    Column("revision", String(32)),
    time("attested_at", default=True),
    PrimaryKeyConstraint("id", name="pk_pipestate_attestation"),
    Index("idx_pipestate_attestation_name", "name", "attested_at"),
)

pipestate_observation = Table(
    "pipestate_observation",
    metadata,
    Column("id", BigId, Identity(), nullable=False),
    Column("name", String(100), nullable=False),
    Column("value", Float, nullable=False),
    Column("source", String(100), nullable=False),
    Column("actor", String, nullable=False),
    Column("revision", String(32)),
    time("observed_at", default=True),
    PrimaryKeyConstraint("id", name="pk_pipestate_observation"),
    Index("idx_pipestate_observation_name", "name", "observed_at"),
)

pipestate_reconciliation = Table(
    "pipestate_reconciliation",
    metadata,
    Column("id", BigId, Identity(), nullable=False),
    time("started_at", default=True),
    time("finished_at"),
    Column("triggered_by", String(20), nullable=False),
    Column("actor", String, nullable=False),
    Column("revision", String(32)),
    count("found"),
    count("recovered"),
    count("skipped"),
    count("failed"),
    Column("details", Json),
    PrimaryKeyConstraint("id", name="pk_pipestate_reconciliation"),
    CheckConstraint("triggered_by IN ('cron', 'manual')", name="ck_pipestate_reconciliation_triggered_by"),
    Index("idx_pipestate_reconciliation_started_at", "started_at"),
)
