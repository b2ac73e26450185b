"""Every run of `pipestate reconcile`."""

from sqlalchemy import CheckConstraint, Column, Identity, Index, PrimaryKeyConstraint, String, Table

from pipestate.schema.base import BigId, Json, count, metadata, time

pipeline_reconciliation = Table(
    "pipeline_reconciliation",
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
    PrimaryKeyConstraint("id", name="pk_pipeline_reconciliation"),
    CheckConstraint("triggered_by IN ('cron', 'manual')", name="ck_pipeline_reconciliation_triggered_by"),
    Index("idx_pipeline_reconciliation_started_at", "started_at"),
)
