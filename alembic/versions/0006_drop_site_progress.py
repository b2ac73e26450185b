"""Contract: drop `site_progress`.

Why: the counters on `sites` say the same, and two accounts of one thing drift apart. Nothing is lost: the table moves
as it is into the schema `pipestate_archive` (SQLite: is renamed), and the downgrade restores every row; rows of sites
that were modified since are derived from the counters.
Lock: ACCESS EXCLUSIVE on `site_progress` for milliseconds.
Gate: sites-consolidation/readiness, whole before the lock; under it, once more, that nobody writes.
Verified by: sites-consolidation, phase `cleanup`.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa

from pipestate import Contract
from pipestate.ddl import DerivedRows
from pipestate.migration.adoption import create_table, table_of
from pipestate.migration.request import force_reason

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# The criteria that must still be in the runbook, whoever has edited it.
MUST_PASS = (
    "backfill-complete",
    "stuck-sites",
    "reconciliation-runs",
    "health-score",
    "manual-interventions",
    "recent-site-progress-writes",
    "recent-legacy-column-writes",
    "no-dependents",
    "soak",
    "backup-taken",
    "old-columns-unread",
)

# What the old code would have written: the current stage's counters, and 1 of 1 when all is done.
STAGE_TOTAL = """CASE s.current_stage WHEN 'fetch' THEN s.fetch_total WHEN 'ocr' THEN s.ocr_total
  WHEN 'compilation' THEN s.compilation_total WHEN 'extraction' THEN s.extraction_total
  WHEN 'deploy' THEN s.deploy_total ELSE 1 END"""
STAGE_COMPLETED = """CASE s.current_stage WHEN 'fetch' THEN s.fetch_completed WHEN 'ocr' THEN s.ocr_completed
  WHEN 'compilation' THEN s.compilation_completed WHEN 'extraction' THEN s.extraction_completed
  WHEN 'deploy' THEN s.deploy_completed ELSE 1 END"""
DERIVED = {
    "current_stage": "s.current_stage",
    "stage_total": STAGE_TOTAL,
    "stage_completed": STAGE_COMPLETED,
    "started_at": "s.started_at",
    "updated_at": "s.updated_at",
}

contract = Contract(
    "sites-consolidation/readiness",
    tables=["site_progress"],
    keys={"site_progress": "subdomain"},
    recheck=["recent-site-progress-writes"],
    must_pass=MUST_PASS,
    derived={"site_progress": DerivedRows("sites", DERIVED, where="s.current_stage IS NOT NULL")},
    changed_at={"site_progress": "updated_at"},
    may_be_gone=True,  # a database that has dropped it already is adopted
    revision=revision,
)
upgrade = contract.upgrade


def downgrade() -> None:
    contract.downgrade()
    if force_reason() is not None:
        create_table(site_progress())


def site_progress() -> sa.Table:
    """Only for a forced downgrade, after the archive was purged."""
    return table_of(
        "site_progress",
        sa.Column("subdomain", sa.String, nullable=False),
        sa.Column("current_stage", sa.String),
        sa.Column("stage_total", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("stage_completed", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("updated_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("subdomain", name="pk_site_progress"),
    )
