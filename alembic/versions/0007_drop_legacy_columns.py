"""Contract: the five legacy columns of `sites` go.

Why: `current_stage`, the counters and `updated_at` say it all. Nothing is lost: the values are copied
into `pipestate_archive.sites_columns_0007` first, in batches, while triggers keep the copy true; the
downgrade brings every value back. For sites that changed since, it derives what the old code would
have written (ocr: needs_ocr, extraction: needs_extraction, deploy: needs_deploy, completed: deployed,
or no_documents where the last error says so) and keeps archived times that nothing replaced.
Lock: on `sites`, SHARE ROW EXCLUSIVE to add the triggers and ACCESS EXCLUSIVE to drop the columns,
each for milliseconds.
Gate: sites-consolidation/readiness, whole before the copy and, what is insisted on, once more after it; under the
lock, that nobody has written the columns meanwhile, from what the triggers saw, which an index answers.
Verified by: sites-consolidation, phase `cleanup`.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa

from pipestate import Contract
from pipestate.ddl import add_columns
from pipestate.ddl.adoption import force_reason, replace_comment, restore_comment, table_of

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# The criteria that must still be in the runbook, whoever has edited it.
INSISTED = (
    "stuck-sites",
    "reconciliation-runs",
    "health-score",
    "manual-interventions",
    "recent-legacy-column-writes",
    "no-dependents",
    "soak",
)
COLUMNS = ("status", "extraction_status", "last_updated", "last_deployed", "last_extracted")
COMMENT = "Sites and the one account of their pipeline state: current_stage, counters, last error"

# What the old code would have written, over a site `s` and its archived values `a`.
NO_DOCUMENTS = """(s.current_stage = 'completed' AND (lower(s.last_error_message) LIKE '%no documents%'
  OR lower(s.last_error_message) LIKE '%no pdfs found%'))"""
EXTRACTED = "s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total"
STATUS = f"""CASE WHEN {NO_DOCUMENTS} THEN 'no_documents'
  WHEN s.current_stage = 'ocr' THEN 'needs_ocr'
  WHEN s.current_stage IN ('compilation', 'extraction') THEN 'needs_extraction'
  WHEN s.current_stage = 'deploy' THEN 'needs_deploy'
  WHEN s.current_stage = 'completed' THEN 'deployed'
  ELSE a.status END"""
EXTRACTION_STATUS = f"""CASE WHEN {EXTRACTED} AND s.extraction_completed = 0 THEN 'failed'
  WHEN {EXTRACTED} THEN 'completed'
  ELSE coalesce(a.extraction_status, 'pending') END"""
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
    insist=INSISTED,
    sign_offs=["backup-taken"],
    derived={
        "sites": {
            "status": STATUS,
            "extraction_status": EXTRACTION_STATUS,
            "last_updated": with_time("coalesce({when}, a.last_updated)"),
            "last_deployed": with_time(
                f"CASE WHEN s.current_stage = 'completed' AND NOT coalesce({NO_DOCUMENTS}, false) "
                "THEN {when} ELSE a.last_deployed END"
            ),
            "last_extracted": with_time(f"CASE WHEN {EXTRACTED} THEN {{when}} ELSE a.last_extracted END"),
        }
    },
    changed_at={"sites": "updated_at"},
    may_be_gone=True,  # a database that has dropped them already is adopted
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
