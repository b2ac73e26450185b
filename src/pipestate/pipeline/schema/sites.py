"""Tables of sites and content items, legacy tables, and the shared MetaData and columns."""

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
