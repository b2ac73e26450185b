"""Schema at head, as SQLAlchemy Core tables, for `alembic check` and the pipeline.

Revisions must not import this module, because it changes and a revision stays fixed. The legacy table and
columns that the chain drops are in a separate MetaData.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    false,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

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


# Tables of sites and content items, legacy tables, and the shared MetaData and columns.


# Stages of one step run in parallel and end together: one coordinator follows the whole step.
STEPS = (("fetch",), ("ocr",), ("compilation", "extraction"), ("deploy",))
STAGES = tuple(stage for step in STEPS for stage in step)
COMPLETED = "completed"

metadata = MetaData()
legacy_metadata = MetaData()

Json = JSON().with_variant(JSONB(), "postgresql")
# The application's own columns may have another type; columns that reference its keys follow it (see KeyOf).
ADOPTED = {"adopted": True}
BigId = BigInteger().with_variant(Integer(), "sqlite")


def time(name: str, *, default: bool = False, adopted: bool = False) -> Column[Any]:
    info = ADOPTED if adopted else {}
    if not default:
        return Column(name, DateTime(timezone=True), info=info)
    return Column(
        name, DateTime(timezone=True), server_default=func.current_timestamp(), nullable=False, info=info
    )


def count(name: str) -> Column[Any]:
    return Column(name, Integer, server_default=text("0"), nullable=False)


# Objects that the chain drops, in a separate MetaData.


site_progress = Table(
    "site_progress",
    legacy_metadata,
    Column("subdomain", String, nullable=False),
    Column("current_stage", String),
    count("stage_total"),
    count("stage_completed"),
    time("started_at"),
    time("updated_at"),
    PrimaryKeyConstraint("subdomain", name="pk_site_progress"),
)

# `sites` before 0007, limited to the columns that the backfill reads.
legacy_sites = Table(
    "sites",
    legacy_metadata,
    Column("subdomain", String, primary_key=True),
    Column("status", String),
    Column("extraction_status", String, server_default="pending"),
    Column("last_updated", String),
    Column("last_deployed", String),
    Column("last_extracted", String),
)
LEGACY_COLUMNS = frozenset(
    f"sites.{column.name}" for column in legacy_sites.columns if column.name != "subdomain"
)


# Sites with their pipeline state, job keys, claims, and the state of content items.


def _counters(stage: str) -> list[Column[Any]]:
    return [count(f"{stage}_{what}") for what in ("total", "completed", "failed")]


def _counter_rule(stage: str) -> CheckConstraint:
    return CheckConstraint(
        f"{stage}_total >= 0 AND {stage}_completed >= 0 AND {stage}_failed >= 0",
        name=f"ck_sites_{stage}_counters",
    )


def _contradicts() -> str:
    """Build the condition of the contradiction index, equal to the check `counters-consistent`."""
    wrong = [
        *(f"{stage}_completed > ({stage}_total - {stage}_failed)" for stage in STAGES),
        f"(current_stage = '{COMPLETED}' AND coordinator_enqueued)",
        "(current_stage IS NULL AND ocr_total > 0)",
    ]
    return f"CASE WHEN {' OR '.join(wrong)} THEN 1 ELSE 0 END = 1"


sites = Table(
    "sites",
    metadata,
    Column("subdomain", String, nullable=False, info=ADOPTED),
    Column("name", String, info=ADOPTED),
    Column("state", String, info=ADOPTED),
    Column("kind", String, info=ADOPTED),
    Column("scraper", String, info=ADOPTED),
    Column("pages", Integer, info=ADOPTED),
    Column("start_year", Integer, info=ADOPTED),
    Column("extra", String, info=ADOPTED),
    Column("country", String, info=ADOPTED),
    Column("lat", String, info=ADOPTED),
    Column("lng", String, info=ADOPTED),
    Column("current_stage", String, comment=f"{', '.join(STAGES)} or {COMPLETED}"),
    time("started_at"),
    time("updated_at"),
    *(column for stage in STAGES for column in _counters(stage)),
    Column(
        "coordinator_enqueued",
        Boolean,
        server_default=false(),
        nullable=False,
        comment="Claimed by the job that finishes a stage, so that only one coordinator starts",
    ),
    Column("last_error_stage", String),
    Column("last_error_message", Text),
    time("last_error_at"),
    PrimaryKeyConstraint("subdomain", name="pk_sites"),
    CheckConstraint(
        f"current_stage IN ({', '.join(map(repr, (*STAGES, COMPLETED)))})",
        name="ck_sites_current_stage",
    ),
    *(_counter_rule(stage) for stage in STAGES),
    Index("idx_sites_current_stage", "current_stage"),
    Index("idx_sites_updated_at", "updated_at"),
    Index(
        "idx_sites_coordinator_enqueued",
        "subdomain",
        "coordinator_enqueued",
        postgresql_where=text("coordinator_enqueued = false"),
        sqlite_where=text("coordinator_enqueued = false"),
    ),
    Index(
        "idx_sites_contradictions",
        "subdomain",
        postgresql_where=text(_contradicts()),
        sqlite_where=text(_contradicts()),
    ),
    comment="Sites and the one account of their pipeline state: current_stage, counters, last error",
)

content_items = Table(
    "content_items",
    metadata,
    Column("id", BigId, Identity(), nullable=False, info=ADOPTED),
    PrimaryKeyConstraint("id", name="pk_content_items"),
)

pipeline_job = Table(
    "pipeline_job",
    metadata,
    Column("subdomain", String, nullable=False),
    Column("stage", String, nullable=False),
    Column("job_key", String, nullable=False),
    time("finished_at", default=True),
    PrimaryKeyConstraint("subdomain", "stage", "job_key", name="pk_pipeline_job"),
    ForeignKeyConstraint(["subdomain"], ["sites.subdomain"], name="fk_pipeline_job_site", ondelete="CASCADE"),
)

pipeline_claim = Table(
    "pipeline_claim",
    metadata,
    Column("subdomain", String, nullable=False),
    Column("stage", String, nullable=False),
    time("claimed_at", default=True),
    count("attempts"),
    PrimaryKeyConstraint("subdomain", name="pk_pipeline_claim"),
    ForeignKeyConstraint(
        ["subdomain"], ["sites.subdomain"], name="fk_pipeline_claim_site", ondelete="CASCADE"
    ),
)

content_item_pipeline_state = Table(
    "content_item_pipeline_state",
    metadata,
    Column("id", BigId, Identity(), nullable=False, info=ADOPTED),
    Column("content_item_id", BigId, nullable=False, info=ADOPTED),
    Column("pipeline", String(20), nullable=False),
    Column("status", String(20), nullable=False),
    count("attempt_count"),
    Column("error_code", String(100)),
    Column("error_message", Text),
    time("last_attempt_at"),
    time("processed_at"),
    time("created_at", default=True),
    time("updated_at", default=True),
    PrimaryKeyConstraint("id", name="pk_content_item_pipeline_state"),
    ForeignKeyConstraint(
        ["content_item_id"], ["content_items.id"], name="fk_cips_content_item", ondelete="CASCADE"
    ),
    CheckConstraint(
        "status IN ('pending', 'in_progress', 'processed', 'failed_retryable', 'failed_terminal')",
        name="ck_cips_status",
    ),
    CheckConstraint("pipeline IN ('technical', 'fundamental')", name="ck_cips_pipeline"),
    Index("uix_cips_content_item_pipeline", "content_item_id", "pipeline", unique=True),
    Index("idx_cips_pipeline_status_last_attempt", "pipeline", "status", "last_attempt_at"),
    Index("idx_cips_pipeline_status_created", "pipeline", "status", "created_at"),
    Index("idx_cips_content_item_pipeline_status", "content_item_id", "pipeline", "status"),
    Index("idx_cips_error_code", "error_code"),
    Index("idx_cips_updated_at", "updated_at"),
)


# Tables of jobs, their results, workers, history, and reconcile runs.


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
