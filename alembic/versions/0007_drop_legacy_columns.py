"""Contract: drop the five legacy columns of `sites`.

Why: `current_stage`, the counters and `updated_at` say it all. Nothing is lost: the values stay in the table under
hidden names, and the downgrade restores every one. For sites that were modified since, it derives what the old code
would have written (ocr: needs_ocr, extraction: needs_extraction, deploy: needs_deploy, completed: deployed, or
no_documents where the last error says so) and keeps times that nothing replaced.
Lock: ACCESS EXCLUSIVE on `sites` for milliseconds.
Gate: sites-consolidation/readiness, whole before the lock; under it, once more, that nobody writes the columns.
Verified by: sites-consolidation, phase `cleanup`.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa

from pipestate import Contract
from pipestate.ddl import add_columns
from pipestate.migration.adoption import replace_comment, restore_comment, table_of
from pipestate.migration.request import force_reason

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# The criteria that must still be in the runbook, whoever has edited it.
MUST_PASS = (
    "stuck-sites",
    "sites-without-stage",
    "reconciliation-runs",
    "health-score",
    "manual-interventions",
    "recent-legacy-column-writes",
    "no-dependents",
    "soak",
    "backup-taken",
    "old-columns-unread",
)
COLUMNS = ("status", "extraction_status", "last_updated", "last_deployed", "last_extracted")
COMMENT = "Sites and the one account of their pipeline state: current_stage, counters, last error"

# What the old code would have written, over a site `s` and its own hidden values `a`.
NO_DOCUMENTS = """(s.current_stage = 'completed' AND (lower(s.last_error_message) LIKE '%no documents%'
  OR lower(s.last_error_message) LIKE '%no pdfs found%'))"""
EXTRACTED = "s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total"
STATUS = f"""CASE WHEN {NO_DOCUMENTS} THEN 'no_documents'
  WHEN s.current_stage = 'ocr' THEN 'needs_ocr'
  WHEN s.current_stage IN ('compilation', 'extraction') THEN 'needs_extraction'
  WHEN s.current_stage = 'deploy' THEN 'needs_deploy'
  WHEN s.current_stage = 'completed' THEN 'deployed'
  ELSE CAST(a.status AS text) END"""
EXTRACTION_STATUS = f"""CASE WHEN {EXTRACTED} AND s.extraction_completed = 0 THEN 'failed'
  WHEN {EXTRACTED} THEN 'completed'
  ELSE coalesce(CAST(a.extraction_status AS text), 'pending') END"""
# The time of the last change, as the old code wrote times.
CHANGED = {
    "postgresql": "to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS')",
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%S', s.updated_at)",
}


def with_time(expression: str) -> dict[str, str]:
    """Write an expression for each engine; `{when}` in it is the time of the last change."""
    return {engine: expression.replace("{when}", when) for engine, when in CHANGED.items()}


contract = Contract(
    "sites-consolidation/readiness",
    columns={"sites": COLUMNS},
    keys={"sites": "subdomain"},
    recheck=["recent-legacy-column-writes"],
    must_pass=MUST_PASS,
    derived={
        "sites": {
            "status": STATUS,
            "extraction_status": EXTRACTION_STATUS,
            "last_updated": with_time("coalesce({when}, CAST(a.last_updated AS text))"),
            "last_deployed": with_time(
                f"CASE WHEN s.current_stage = 'completed' AND NOT coalesce({NO_DOCUMENTS}, false) "
                "THEN {when} ELSE CAST(a.last_deployed AS text) END"
            ),
            "last_extracted": with_time(
                f"CASE WHEN {EXTRACTED} THEN {{when}} ELSE CAST(a.last_extracted AS text) END"
            ),
        }
    },
    changed_at={"sites": "updated_at"},
    may_be_gone=True,  # a database that has dropped them already is adopted
    revision=revision,
)


def upgrade() -> None:
    contract.upgrade()
    replace_comment("sites", COMMENT, revision=revision)


def downgrade() -> None:
    restore_comment("sites", COMMENT, revision=revision)
    contract.downgrade()
    if force_reason() is not None:
        add_columns(legacy_columns())


def legacy_columns() -> sa.Table:
    return table_of(
        "sites",
        sa.Column("status", sa.String),
        sa.Column("extraction_status", sa.String, server_default="pending"),
        sa.Column("last_updated", sa.String),
        sa.Column("last_deployed", sa.String),
        sa.Column("last_extracted", sa.String),
    )
