"""The legacy schema: created where absent, adopted where present.

Why: the migrations must start from something that they know. On a production database `sites`,
`site_progress`, `content_items` and `jobs` are there already and stay as they are; on an empty one
they are created as the source systems had them. The ledger's table
`object` remembers which is which; this revision installs that much of it.
Lock: none on existing tables.
Verified by: sites-consolidation, phase `preflight`.

Revision ID: 0001
Revises: (base)
"""

import sqlalchemy as sa

from pipestate.migration.adoption import (
    Shape,
    create_table,
    drop_table,
    install_objects,
    refuse_state,
    refuse_wrong_shapes,
    remove_objects,
    table_of,
)

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

SHAPES = (
    Shape("sites", key="subdomain", columns=("subdomain",)),
    Shape(
        "site_progress",
        key="subdomain",
        columns=("subdomain", "current_stage", "stage_total", "stage_completed", "started_at", "updated_at"),
        times=("started_at", "updated_at"),
    ),
    Shape("content_items", key="id", columns=("id",)),
    Shape("jobs", key="id", columns=("id", "status", "created_at")),
)


def upgrade() -> None:
    install_objects()
    refuse_wrong_shapes(SHAPES)
    refuse_state(
        "sites",
        having=("current_stage", "ocr_total"),
        lacking=("status", "last_updated"),
        gone="site_progress",
        message="this database is already contracted: sites has its counters, and neither the legacy columns nor "
        "site_progress are left. Stamp it: alembic stamp 0001, then alembic upgrade head adds what is missing",
    )
    create_table(sites())
    create_table(site_progress())
    create_table(content_items())
    create_table(jobs())


def downgrade() -> None:
    for table in ("jobs", "content_items", "site_progress", "sites"):
        drop_table(table)
    remove_objects()


def sites() -> sa.Table:
    return table_of(
        "sites",
        sa.Column("subdomain", sa.String, nullable=False),
        sa.Column("name", sa.String),
        sa.Column("state", sa.String),
        sa.Column("kind", sa.String),
        sa.Column("scraper", sa.String),
        sa.Column("pages", sa.Integer),
        sa.Column("start_year", sa.Integer),
        sa.Column("extra", sa.String),
        sa.Column("country", sa.String),
        sa.Column("lat", sa.String),
        sa.Column("lng", sa.String),
        sa.Column("status", sa.String),
        sa.Column("extraction_status", sa.String, server_default="pending"),
        sa.Column("last_updated", sa.String),
        sa.Column("last_deployed", sa.String),
        sa.Column("last_extracted", sa.String),
        sa.PrimaryKeyConstraint("subdomain", name="pk_sites"),
    )


def site_progress() -> sa.Table:
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


def content_items() -> sa.Table:
    return table_of(
        "content_items",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_content_items"),
    )


def jobs() -> sa.Table:
    return table_of(
        "jobs",
        sa.Column("id", BIG_ID, sa.Identity(), nullable=False),
        sa.Column("customer_id", sa.String),
        sa.Column("package_size", sa.Integer),
        sa.Column("status", sa.String, server_default="pending", nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.func.current_timestamp(),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
