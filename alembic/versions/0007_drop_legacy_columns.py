"""Contract: the five legacy columns of `sites` go.

Why: `current_stage`, the counters and `updated_at` say it all. Nothing is lost: the values are copied
into `pipestate_archive.sites_columns` first, in batches, while triggers keep the copy true; the
downgrade brings every value back. For sites that changed since, it derives what the old code would
have written (ocr: needs_ocr, extraction: needs_extraction, deploy: needs_deploy, completed: deployed,
or no_documents where the last error says so) and keeps archived times that nothing replaced.
Lock: on `sites`, SHARE ROW EXCLUSIVE to add the triggers and ACCESS EXCLUSIVE to drop the columns,
each for milliseconds.
Gate: sites-consolidation/readiness, whole before the copy; after it, that nobody has written the
columns; under the lock, the same from what the triggers saw, which an index answers.
Verified by: sites-consolidation, phase `cleanup`.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op

from pipestate.ddl import (
    add_columns,
    archive_columns,
    changed_since_archived,
    comment_table,
    drop_archived_columns,
    empty_copy,
    forget_archived,
    note_absence,
    refuse_late_writes,
    require_archived,
    restore_columns,
    table_of,
)
from pipestate.ddl.force import force_reason
from pipestate.gate import gate, require

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

GATE = "sites-consolidation/readiness"
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

NO_DOCUMENTS = """(s.current_stage = 'completed' AND (lower(s.last_error_message) LIKE '%no documents%'
  OR lower(s.last_error_message) LIKE '%no pdfs found%'))"""
EXTRACTED = "s.extraction_total > 0 AND s.extraction_completed + s.extraction_failed >= s.extraction_total"


def upgrade() -> None:
    with gate(GATE, lock=["sites"], insist=INSISTED, sign_offs=["backup-taken"], prepare=archive):
        refuse_late_writes("sites", within="24 hours", gate=GATE)
        drop_archived_columns("sites", COLUMNS)
    note_absence("columns", "sites")
    comment_table("sites", COMMENT)


def archive() -> None:
    """Copy; then ask again about late writes. What comes after that, the triggers see."""
    archive_columns("sites", "subdomain", COLUMNS)
    require(GATE, ["recent-legacy-column-writes"])


def downgrade() -> None:
    require_archived("columns", "sites")
    if force_reason() is not None:
        empty_copy("sites", "subdomain")
    since = changed_since_archived("columns", "sites", "s.updated_at")
    restore_columns(
        "sites", "subdomain", COLUMNS, changed=f"a.subdomain IS NULL OR {since}", derived=derived()
    )
    if force_reason() is not None:
        add_columns(legacy_columns())
    forget_archived("columns", "sites")


def legacy_columns() -> sa.Table:
    return table_of(
        "sites",
        sa.Column("status", sa.String),
        sa.Column("extraction_status", sa.String, server_default="pending"),
        sa.Column("last_updated", sa.String),
        sa.Column("last_deployed", sa.String),
        sa.Column("last_extracted", sa.String),
    )


def derived() -> dict[str, str]:
    """What the old code would have written, over a site `s` and its archived values `a`."""
    when = (
        "strftime('%Y-%m-%dT%H:%M:%S', s.updated_at)"
        if op.get_context().dialect.name == "sqlite"
        else "to_char(s.updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS')"
    )
    return {
        "status": f"""CASE WHEN {NO_DOCUMENTS} THEN 'no_documents'
  WHEN s.current_stage = 'ocr' THEN 'needs_ocr'
  WHEN s.current_stage IN ('compilation', 'extraction') THEN 'needs_extraction'
  WHEN s.current_stage = 'deploy' THEN 'needs_deploy'
  WHEN s.current_stage = 'completed' THEN 'deployed'
  ELSE a.status END""",
        "extraction_status": f"""CASE WHEN {EXTRACTED} AND s.extraction_completed = 0 THEN 'failed'
  WHEN {EXTRACTED} THEN 'completed'
  ELSE coalesce(a.extraction_status, 'pending') END""",
        "last_updated": f"coalesce({when}, a.last_updated)",
        "last_deployed": f"""CASE WHEN s.current_stage = 'completed' AND NOT coalesce({NO_DOCUMENTS}, false)
  THEN {when} ELSE a.last_deployed END""",
        "last_extracted": f"CASE WHEN {EXTRACTED} THEN {when} ELSE a.last_extracted END",
    }
