"""Expand: pipeline state and atomic counters on `sites`.

Why: one account of where a site stands, which every job can add to in one statement. Where the
columns were added by hand before (naive timestamps, nullable counters), they are brought to the same
definition: timestamps become timestamptz, NULL counters become 0. Five more indexes let the runbook's
checks read what they find instead of all there is: sites whose counters contradict themselves, which are
none, sites whose only state is `status`, and who still writes the old account; those on the old account go with it.
Lock: ACCESS EXCLUSIVE on `sites` for milliseconds, once for the columns and once for the rules;
indexes are built concurrently, rules are validated beside the traffic, no row is rewritten.
Downgrade: the columns of a table with rows are hidden, tables with rows move into the archive, and the next upgrade
restores both. One transaction, with ACCESS EXCLUSIVE on `sites` and `site_progress` for milliseconds.
Verified by: sites-consolidation, phase `expand`.

Revision ID: 0003
Revises: 0002
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from pipestate.ddl import Index, add_checks, add_columns, create_index, lock_tables
from pipestate.migration.adoption import (
    analyze_table,
    comment_column,
    create_table,
    drop_columns,
    drop_constraint,
    drop_index,
    drop_table,
    require_not_null,
    table_of,
    use_timestamptz,
)

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(JSONB(), "postgresql")
STAGES = ("fetch", "ocr", "compilation", "extraction", "deploy")
TIMES = ("started_at", "updated_at", "last_error_at")
COUNTERS = tuple(f"{stage}_{what}" for stage in STAGES for what in ("total", "completed", "failed"))

CHECKS = {
    "ck_sites_current_stage": "current_stage IN "
    "('fetch', 'ocr', 'compilation', 'extraction', 'deploy', 'completed')",
    **{
        f"ck_sites_{stage}_counters": f"{stage}_total >= 0 AND {stage}_completed >= 0 AND {stage}_failed >= 0"
        for stage in STAGES
    },
}
INDEXES = (
    Index("idx_sites_current_stage", "sites", "current_stage"),
    Index("idx_sites_updated_at", "sites", "updated_at"),
    Index(
        "idx_sites_coordinator_enqueued",
        "sites",
        "subdomain, coordinator_enqueued",
        where="coordinator_enqueued = false",
    ),
)
# A site whose counters contradict themselves. As `CASE … = 1`: of an OR the planner would expect most rows.
CONTRADICTS = " OR ".join(
    [
        *(f"{stage}_completed > ({stage}_total - {stage}_failed)" for stage in STAGES),
        "(current_stage = 'completed' AND coordinator_enqueued)",
        "(current_stage IS NULL AND ocr_total > 0)",
    ]
)
LEGACY_TIMES = ("last_updated", "last_deployed", "last_extracted")
# Texts, some with a blank for the T. No more of one than a time has: a long text would not fit into an index.
LATEST = """substr(GREATEST(replace(last_updated::text COLLATE "C", ' ', 'T'),
  replace(last_deployed::text COLLATE "C", ' ', 'T'), replace(last_extracted::text COLLATE "C", ' ', 'T')), 1, 40)"""
READ_BY_CHECKS = (
    Index(
        "idx_sites_contradictions",
        "sites",
        "subdomain",
        where=f"CASE WHEN {CONTRADICTS} THEN 1 ELSE 0 END = 1",
    ),
    Index(
        "idx_sites_legacy_times",
        "sites",
        LATEST,
        needs=LEGACY_TIMES,
        types=("text", "varchar"),
    ),
    Index(
        "idx_sites_without_stage",
        "sites",
        "subdomain",
        where="(current_stage IS NULL) AND (status IS NOT NULL)",
        needs=("status",),
        types=("text", "varchar"),
    ),
    Index(
        "idx_site_progress_ocr",
        "site_progress",
        "subdomain",
        where="current_stage = 'ocr'",
        needs=("subdomain", "current_stage"),
    ),
    Index(
        "idx_site_progress_touched",
        "site_progress",
        "GREATEST(updated_at, started_at)",
        needs=("updated_at", "started_at"),
        types=("timestamptz",),
    ),
)


def upgrade() -> None:
    add_columns(columns())
    use_timestamptz("sites", TIMES, indexes=["idx_sites_updated_at"])
    repairs = dict.fromkeys(COUNTERS, "0") | {"coordinator_enqueued": "false"}
    require_not_null("sites", "subdomain", repairs)
    add_checks("sites", CHECKS)
    create_index(*INDEXES, *READ_BY_CHECKS)
    analyze_table("sites", "site_progress")
    lock_tables("sites", mode="SHARE ROW EXCLUSIVE")  # for the foreign keys
    create_table(pipeline_job())
    create_table(pipeline_claim())
    create_table(
        pipeline_reconciliation(),
        Index("idx_pipeline_reconciliation_started_at", "pipeline_reconciliation", "started_at"),
    )
    comment_column("sites", "current_stage", "fetch, ocr, compilation, extraction, deploy or completed")
    comment_column(
        "sites",
        "coordinator_enqueued",
        "Claimed by the job that finishes a stage, so that only one coordinator starts",
    )


def downgrade() -> None:
    tables = ("pipeline_reconciliation", "pipeline_claim", "pipeline_job")
    lock_tables("sites", "site_progress", *tables)
    for table in tables:
        drop_table(table)
    drop_index(*(index.name for index in (*READ_BY_CHECKS, *INDEXES)))
    for name in CHECKS:
        drop_constraint("sites", name)
    drop_columns("sites", [column.name for column in columns().columns])


def columns() -> sa.Table:
    return table_of(
        "sites",
        sa.Column("current_stage", sa.String),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("updated_at", sa.DateTime(timezone=True)),
        *(counter(name) for name in COUNTERS),
        sa.Column("coordinator_enqueued", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("last_error_stage", sa.String),
        sa.Column("last_error_message", sa.Text),
        sa.Column("last_error_at", sa.DateTime(timezone=True)),
    )


def counter(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer, server_default=sa.text("0"), nullable=False)


def pipeline_job() -> sa.Table:
    """The keys of finished jobs: a job that is delivered twice counts once."""
    return table_of(
        "pipeline_job",
        sa.Column("subdomain", sa.String, nullable=False),
        sa.Column("stage", sa.String, nullable=False),
        sa.Column("job_key", sa.String, nullable=False),
        sa.Column(
            "finished_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.current_timestamp(),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("subdomain", "stage", "job_key", name="pk_pipeline_job"),
        sa.ForeignKeyConstraint(
            ["subdomain"], ["sites.subdomain"], name="fk_pipeline_job_site", ondelete="CASCADE"
        ),
    )


def pipeline_claim() -> sa.Table:
    """When a site's coordinator was claimed, and how often: a claim that gets old is released."""
    return table_of(
        "pipeline_claim",
        sa.Column("subdomain", sa.String, nullable=False),
        sa.Column("stage", sa.String, nullable=False),
        sa.Column(
            "claimed_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.current_timestamp(),
            nullable=False,
        ),
        counter("attempts"),
        sa.PrimaryKeyConstraint("subdomain", name="pk_pipeline_claim"),
        sa.ForeignKeyConstraint(
            ["subdomain"], ["sites.subdomain"], name="fk_pipeline_claim_site", ondelete="CASCADE"
        ),
    )


def pipeline_reconciliation() -> sa.Table:
    """Every run of `pipestate reconcile`: when, by whom, what became of the sites it found."""
    return table_of(
        "pipeline_reconciliation",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.current_timestamp(),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.Column("triggered_by", sa.String(20), nullable=False),
        sa.Column("actor", sa.String, nullable=False),
        sa.Column("revision", sa.String(32)),
        counter("found"),
        counter("recovered"),
        counter("skipped"),
        counter("failed"),
        sa.Column("details", JSON),
        sa.PrimaryKeyConstraint("id", name="pk_pipeline_reconciliation"),
        sa.CheckConstraint(
            "triggered_by IN ('cron', 'manual')", name="ck_pipeline_reconciliation_triggered_by"
        ),
    )
