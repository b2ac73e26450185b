"""Schema at head, as SQLAlchemy Core tables, for `alembic check` and the pipeline.

Revisions must not import this module, because it changes and a revision stays fixed. The legacy table and
columns that the migrations drop are in a separate MetaData.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from pipestate.pipeline.stages import COMPLETED, STAGES

__all__ = [
    "LEGACY_COLUMNS",
    "STAGES",
    "content_item_pipeline_state",
    "content_items",
    "job_results",
    "jobs",
    "legacy_metadata",
    "legacy_sites",
    "metadata",
    "pipeline_claim",
    "pipeline_job",
    "pipeline_reconciliation",
    "queue_history",
    "site_progress",
    "sites",
    "worker_heartbeats",
]


metadata = sa.MetaData()
legacy_metadata = sa.MetaData()

Json = sa.JSON().with_variant(JSONB(), "postgresql")
# The application's own columns may have another type; columns that reference its keys follow it (see KeyOf).
ADOPTED = {"adopted": True}
BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def time(name: str, *, default: bool = False, adopted: bool = False) -> sa.Column[Any]:
    always: Any = {"server_default": sa.func.current_timestamp(), "nullable": False} if default else {}
    return sa.Column(name, sa.DateTime(timezone=True), info=ADOPTED if adopted else {}, **always)


def count(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, server_default=sa.text("0"), nullable=False)


# Objects that the migrations drop, in a separate MetaData.


site_progress = sa.Table(
    "site_progress",
    legacy_metadata,
    sa.Column("subdomain", sa.String, nullable=False),
    sa.Column("current_stage", sa.String),
    count("stage_total"),
    count("stage_completed"),
    time("started_at"),
    time("updated_at"),
    sa.PrimaryKeyConstraint("subdomain", name="pk_site_progress"),
)

# `sites` before 0007, limited to the columns that the backfill reads.
legacy_sites = sa.Table(
    "sites",
    legacy_metadata,
    sa.Column("subdomain", sa.String, primary_key=True),
    sa.Column("status", sa.String),
    sa.Column("extraction_status", sa.String, server_default="pending"),
    sa.Column("last_updated", sa.String),
    sa.Column("last_deployed", sa.String),
    sa.Column("last_extracted", sa.String),
)
LEGACY_COLUMNS = frozenset(
    f"sites.{column.name}" for column in legacy_sites.columns if column.name != "subdomain"
)


# Sites with their pipeline state, job keys, claims, and the state of content items.


def _contradicts() -> str:
    """Build the condition of the contradiction index, equal to the check `counters-consistent`."""
    wrong = [
        *(f"{stage}_completed > ({stage}_total - {stage}_failed)" for stage in STAGES),
        f"(current_stage = '{COMPLETED}' AND coordinator_enqueued)",
        "(current_stage IS NULL AND ocr_total > 0)",
    ]
    return f"CASE WHEN {' OR '.join(wrong)} THEN 1 ELSE 0 END = 1"


sites = sa.Table(
    "sites",
    metadata,
    sa.Column("subdomain", sa.String, nullable=False, info=ADOPTED),
    sa.Column("name", sa.String, info=ADOPTED),
    sa.Column("state", sa.String, info=ADOPTED),
    sa.Column("kind", sa.String, info=ADOPTED),
    sa.Column("scraper", sa.String, info=ADOPTED),
    sa.Column("pages", sa.Integer, info=ADOPTED),
    sa.Column("start_year", sa.Integer, info=ADOPTED),
    sa.Column("extra", sa.String, info=ADOPTED),
    sa.Column("country", sa.String, info=ADOPTED),
    sa.Column("lat", sa.String, info=ADOPTED),
    sa.Column("lng", sa.String, info=ADOPTED),
    sa.Column("current_stage", sa.String, comment=f"{', '.join(STAGES)} or {COMPLETED}"),
    time("started_at"),
    time("updated_at"),
    *(count(f"{stage}_{what}") for stage in STAGES for what in ("total", "completed", "failed")),
    sa.Column(
        "coordinator_enqueued",
        sa.Boolean,
        server_default=sa.false(),
        nullable=False,
        comment="Claimed by the job that finishes a stage, so that only one coordinator starts",
    ),
    sa.Column("last_error_stage", sa.String),
    sa.Column("last_error_message", sa.Text),
    time("last_error_at"),
    sa.PrimaryKeyConstraint("subdomain", name="pk_sites"),
    sa.CheckConstraint(
        f"current_stage IN ({', '.join(map(repr, (*STAGES, COMPLETED)))})",
        name="ck_sites_current_stage",
    ),
    *(
        sa.CheckConstraint(
            f"{stage}_total >= 0 AND {stage}_completed >= 0 AND {stage}_failed >= 0",
            name=f"ck_sites_{stage}_counters",
        )
        for stage in STAGES
    ),
    sa.Index("idx_sites_current_stage", "current_stage"),
    sa.Index("idx_sites_updated_at", "updated_at"),
    sa.Index(
        "idx_sites_coordinator_enqueued",
        "subdomain",
        "coordinator_enqueued",
        postgresql_where=sa.text("coordinator_enqueued = false"),
        sqlite_where=sa.text("coordinator_enqueued = false"),
    ),
    sa.Index(
        "idx_sites_contradictions",
        "subdomain",
        postgresql_where=sa.text(_contradicts()),
        sqlite_where=sa.text(_contradicts()),
    ),
    comment="Sites and the one account of their pipeline state: current_stage, counters, last error",
)

content_items = sa.Table(
    "content_items",
    metadata,
    sa.Column("id", BigId, sa.Identity(), nullable=False, info=ADOPTED),
    sa.PrimaryKeyConstraint("id", name="pk_content_items"),
)

pipeline_job = sa.Table(
    "pipeline_job",
    metadata,
    sa.Column("subdomain", sa.String, nullable=False),
    sa.Column("stage", sa.String, nullable=False),
    sa.Column("job_key", sa.String, nullable=False),
    time("finished_at", default=True),
    sa.PrimaryKeyConstraint("subdomain", "stage", "job_key", name="pk_pipeline_job"),
    sa.ForeignKeyConstraint(
        ["subdomain"], ["sites.subdomain"], name="fk_pipeline_job_site", ondelete="CASCADE"
    ),
)

pipeline_claim = sa.Table(
    "pipeline_claim",
    metadata,
    sa.Column("subdomain", sa.String, nullable=False),
    sa.Column("stage", sa.String, nullable=False),
    time("claimed_at", default=True),
    count("attempts"),
    sa.PrimaryKeyConstraint("subdomain", name="pk_pipeline_claim"),
    sa.ForeignKeyConstraint(
        ["subdomain"], ["sites.subdomain"], name="fk_pipeline_claim_site", ondelete="CASCADE"
    ),
)

content_item_pipeline_state = sa.Table(
    "content_item_pipeline_state",
    metadata,
    sa.Column("id", BigId, sa.Identity(), nullable=False, info=ADOPTED),
    sa.Column("content_item_id", BigId, nullable=False, info=ADOPTED),
    sa.Column("pipeline", sa.String(20), nullable=False),
    sa.Column("status", sa.String(20), nullable=False),
    count("attempt_count"),
    sa.Column("error_code", sa.String(100)),
    sa.Column("error_message", sa.Text),
    time("last_attempt_at"),
    time("processed_at"),
    time("created_at", default=True),
    time("updated_at", default=True),
    sa.PrimaryKeyConstraint("id", name="pk_content_item_pipeline_state"),
    sa.ForeignKeyConstraint(
        ["content_item_id"], ["content_items.id"], name="fk_cips_content_item", ondelete="CASCADE"
    ),
    sa.CheckConstraint(
        "status IN ('pending', 'in_progress', 'processed', 'failed_retryable', 'failed_terminal')",
        name="ck_cips_status",
    ),
    sa.CheckConstraint("pipeline IN ('technical', 'fundamental')", name="ck_cips_pipeline"),
    sa.Index("uix_cips_content_item_pipeline", "content_item_id", "pipeline", unique=True),
    sa.Index("idx_cips_pipeline_status_last_attempt", "pipeline", "status", "last_attempt_at"),
    sa.Index("idx_cips_pipeline_status_created", "pipeline", "status", "created_at"),
    sa.Index("idx_cips_content_item_pipeline_status", "content_item_id", "pipeline", "status"),
    sa.Index("idx_cips_error_code", "error_code"),
    sa.Index("idx_cips_updated_at", "updated_at"),
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", BigId, sa.Identity(), nullable=False, info=ADOPTED),
    sa.Column("customer_id", sa.String, info=ADOPTED),
    sa.Column("package_size", sa.Integer, info=ADOPTED),
    sa.Column("status", sa.String, server_default="pending", nullable=False, info=ADOPTED),
    time("created_at", default=True, adopted=True),
    sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    sa.Index("idx_jobs_created_at", "created_at"),
)

job_results = sa.Table(
    "job_results",
    metadata,
    sa.Column("id", BigId, sa.Identity(), nullable=False, info=ADOPTED),
    sa.Column("job_id", BigId, nullable=False, info=ADOPTED),
    sa.Column("directory_name", sa.String, nullable=False),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("idempotency_key", sa.String, nullable=False),
    sa.Column("payload", Json),
    sa.Column("response_log", Json),
    sa.Column("listing_url", sa.Text),
    sa.Column("error_message", sa.Text),
    time("created_at", default=True),
    time("updated_at", default=True),
    sa.PrimaryKeyConstraint("id", name="pk_job_results"),
    sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_results_job", ondelete="CASCADE"),
    sa.CheckConstraint(
        "status IN ('submitting', 'submitted', 'failed', 'skipped')", name="ck_job_results_status"
    ),
    sa.Index("uix_job_results_idempotency_key", "idempotency_key", unique=True),
)
sa.Index("idx_job_results_job_created", job_results.c.job_id, job_results.c.created_at.desc())
sa.Index("idx_job_results_status_created", job_results.c.status, job_results.c.created_at.desc())

worker_heartbeats = sa.Table(
    "worker_heartbeats",
    metadata,
    sa.Column("worker_id", sa.String, nullable=False),
    sa.Column("queue_name", sa.String, nullable=False),
    sa.Column("status", sa.String(20), nullable=False),
    sa.Column("current_job_id", BigId, info=ADOPTED),
    count("queue_depth"),
    count("processing_count"),
    time("last_heartbeat", default=True),
    sa.Column("metadata", Json),
    sa.PrimaryKeyConstraint("worker_id", name="pk_worker_heartbeats"),
    sa.ForeignKeyConstraint(
        ["current_job_id"], ["jobs.id"], name="fk_worker_heartbeats_job", ondelete="SET NULL"
    ),
    sa.CheckConstraint(
        "status IN ('starting', 'idle', 'running', 'paused', 'error')", name="ck_worker_heartbeats_status"
    ),
)

# History outlives its job and worker, so it has no foreign keys.
queue_history = sa.Table(
    "queue_history",
    metadata,
    sa.Column("id", BigId, sa.Identity(), nullable=False, info=ADOPTED),
    sa.Column("job_id", BigId, info=ADOPTED),
    sa.Column("directory_name", sa.String),
    sa.Column("event", sa.String(50), nullable=False),
    sa.Column("details", Json),
    sa.Column("worker_id", sa.String),
    time("created_at", default=True),
    sa.PrimaryKeyConstraint("id", name="pk_queue_history"),
    sa.Index("idx_queue_history_job_id", "job_id"),
    sa.Index("idx_queue_history_event", "event"),
    sa.Index("idx_queue_history_created_at", "created_at"),
)


# Runs of `pipestate reconcile`.


pipeline_reconciliation = sa.Table(
    "pipeline_reconciliation",
    metadata,
    sa.Column("id", BigId, sa.Identity(), nullable=False),
    time("started_at", default=True),
    time("finished_at"),
    sa.Column("triggered_by", sa.String(20), nullable=False),
    sa.Column("actor", sa.String, nullable=False),
    sa.Column("revision", sa.String(32)),
    count("found"),
    count("recovered"),
    count("skipped"),
    count("failed"),
    sa.Column("details", Json),
    sa.PrimaryKeyConstraint("id", name="pk_pipeline_reconciliation"),
    sa.CheckConstraint("triggered_by IN ('cron', 'manual')", name="ck_pipeline_reconciliation_triggered_by"),
    sa.Index("idx_pipeline_reconciliation_started_at", "started_at"),
)
