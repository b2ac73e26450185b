"""Tables of jobs, their results, workers, history, and reconcile runs."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from pipestate.pipeline.schema.sites import ADOPTED, BigId, Json, count, metadata, time

jobs = Table(
    "jobs",
    metadata,
    Column("id", BigId, Identity(), nullable=False, info=ADOPTED),
    Column("customer_id", String, info=ADOPTED),
    Column("package_size", Integer, info=ADOPTED),
    Column("status", String, server_default="pending", nullable=False, info=ADOPTED),
    time("created_at", default=True, adopted=True),
    PrimaryKeyConstraint("id", name="pk_jobs"),
    Index("idx_jobs_created_at", "created_at"),
)

job_results = Table(
    "job_results",
    metadata,
    Column("id", BigId, Identity(), nullable=False, info=ADOPTED),
    Column("job_id", BigId, nullable=False, info=ADOPTED),
    Column("directory_name", String, nullable=False),
    Column("status", String(20), nullable=False),
    Column("idempotency_key", String, nullable=False),
    Column("payload", Json),
    Column("response_log", Json),
    Column("listing_url", Text),
    Column("error_message", Text),
    time("created_at", default=True),
    time("updated_at", default=True),
    PrimaryKeyConstraint("id", name="pk_job_results"),
    ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_results_job", ondelete="CASCADE"),
    CheckConstraint(
        "status IN ('submitting', 'submitted', 'failed', 'skipped')", name="ck_job_results_status"
    ),
    Index("uix_job_results_idempotency_key", "idempotency_key", unique=True),
)
Index("idx_job_results_job_created", job_results.c.job_id, job_results.c.created_at.desc())
Index("idx_job_results_status_created", job_results.c.status, job_results.c.created_at.desc())

worker_heartbeats = Table(
    "worker_heartbeats",
    metadata,
    Column("worker_id", String, nullable=False),
    Column("queue_name", String, nullable=False),
    Column("status", String(20), nullable=False),
    Column("current_job_id", BigId, info=ADOPTED),
    count("queue_depth"),
    count("processing_count"),
    time("last_heartbeat", default=True),
    Column("metadata", Json),
    PrimaryKeyConstraint("worker_id", name="pk_worker_heartbeats"),
    ForeignKeyConstraint(
        ["current_job_id"], ["jobs.id"], name="fk_worker_heartbeats_job", ondelete="SET NULL"
    ),
    CheckConstraint(
        "status IN ('starting', 'idle', 'running', 'paused', 'error')", name="ck_worker_heartbeats_status"
    ),
)

# History outlives its job and worker, so it has no foreign keys.
queue_history = Table(
    "queue_history",
    metadata,
    Column("id", BigId, Identity(), nullable=False, info=ADOPTED),
    Column("job_id", BigId, info=ADOPTED),
    Column("directory_name", String),
    Column("event", String(50), nullable=False),
    Column("details", Json),
    Column("worker_id", String),
    time("created_at", default=True),
    PrimaryKeyConstraint("id", name="pk_queue_history"),
    Index("idx_queue_history_job_id", "job_id"),
    Index("idx_queue_history_event", "event"),
    Index("idx_queue_history_created_at", "created_at"),
)


# Runs of `pipestate reconcile`.


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
