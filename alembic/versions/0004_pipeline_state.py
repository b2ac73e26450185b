"""Expand: `content_item_pipeline_state`, one row for each content item and pipeline.

Why: processing state by pipeline, in place of one flag for all. A table that the application made
itself, without the foreign key or the rules, perhaps partitioned by item or pipeline, is brought to the same
definition with every row kept; rows that break a rule are named, and nothing is changed until they are fixed.
Lock: on an adopted table, ACCESS EXCLUSIVE for milliseconds at a time; on `content_items`,
SHARE ROW EXCLUSIVE for as long as it takes to declare the foreign key.
Verified by: content-item-pipeline-state, phase `schema`.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa

from pipestate.ddl import Index, add_checks, add_columns, add_foreign_key, create_index, lock_tables
from pipestate.migration.adoption import (
    KeyOf,
    Shape,
    create_table,
    drop_constraint,
    drop_index,
    drop_table,
    refuse_wrong_shapes,
    require_not_null,
    table_of,
    use_timestamptz,
)

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLE = "content_item_pipeline_state"
TIMES = ("last_attempt_at", "processed_at", "created_at", "updated_at")
CHECKS = {
    "ck_cips_status": "status IN "
    "('pending', 'in_progress', 'processed', 'failed_retryable', 'failed_terminal')",
    "ck_cips_pipeline": "pipeline IN ('technical', 'fundamental')",
}
INDEXES = (
    Index("uix_cips_content_item_pipeline", TABLE, "content_item_id, pipeline", unique=True),
    Index("idx_cips_pipeline_status_last_attempt", TABLE, "pipeline, status, last_attempt_at"),
    Index("idx_cips_pipeline_status_created", TABLE, "pipeline, status, created_at"),
    Index("idx_cips_content_item_pipeline_status", TABLE, "content_item_id, pipeline, status"),
    Index("idx_cips_error_code", TABLE, "error_code"),
    Index("idx_cips_updated_at", TABLE, "updated_at"),
)
FOREIGN_KEY = "fk_cips_content_item"


def upgrade() -> None:
    columns = ("id", "content_item_id", "pipeline", "status")
    unique = ("content_item_id", "pipeline")
    refuse_wrong_shapes([Shape(TABLE, key="id", columns=columns, partitions=True, unique=unique)])
    create_table(content_items())  # not there where 0001 was stamped
    lock_tables("content_items", mode="SHARE ROW EXCLUSIVE")  # for the foreign key
    create_table(pipeline_state(), *INDEXES)
    add_columns(adopted_columns())
    use_timestamptz(
        TABLE,
        TIMES,
        indexes=[
            "idx_cips_pipeline_status_last_attempt",
            "idx_cips_pipeline_status_created",
            "idx_cips_updated_at",
        ],
    )
    add_foreign_key(TABLE, FOREIGN_KEY, "content_item_id", "content_items", on_delete="CASCADE")
    add_checks(TABLE, CHECKS)
    require_not_null(
        TABLE,
        "id",
        {
            # A NULL in one of these is refused: nothing could stand for it.
            "content_item_id": "content_item_id",
            "pipeline": "pipeline",
            "status": "status",
            "attempt_count": "0",
            "created_at": "coalesce(updated_at, last_attempt_at, CURRENT_TIMESTAMP)",
            "updated_at": "coalesce(last_attempt_at, created_at, CURRENT_TIMESTAMP)",
        },
    )
    create_index(*INDEXES)


def downgrade() -> None:
    lock_tables("content_items", TABLE)
    drop_table(TABLE)
    for name in CHECKS:
        drop_constraint(TABLE, name)
    drop_constraint(TABLE, FOREIGN_KEY)
    drop_index(*(index.name for index in INDEXES))


def content_items() -> sa.Table:
    return table_of(
        "content_items",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_content_items"),
    )


def pipeline_state() -> sa.Table:
    return table_of(
        TABLE,
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("content_item_id", KeyOf("content_items.id"), nullable=False),
        sa.Column("pipeline", sa.String(20), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("attempt_count", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("error_code", sa.String(100)),
        sa.Column("error_message", sa.Text),
        sa.Column("last_attempt_at", sa.DateTime(timezone=True)),
        sa.Column("processed_at", sa.DateTime(timezone=True)),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.current_timestamp(),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.current_timestamp(),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name="pk_content_item_pipeline_state"),
        sa.ForeignKeyConstraint(
            ["content_item_id"], ["content_items.id"], name=FOREIGN_KEY, ondelete="CASCADE"
        ),
        *(sa.CheckConstraint(condition, name=name) for name, condition in CHECKS.items()),
    )


def adopted_columns() -> sa.Table:
    """What an adopted table may lack; times stay nullable until they are filled."""
    return table_of(
        TABLE,
        sa.Column("attempt_count", sa.Integer, server_default=sa.text("0"), nullable=False),
        sa.Column("error_code", sa.String(100)),
        sa.Column("error_message", sa.Text),
        sa.Column("last_attempt_at", sa.DateTime(timezone=True)),
        sa.Column("processed_at", sa.DateTime(timezone=True)),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.current_timestamp()),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.func.current_timestamp()),
    )
