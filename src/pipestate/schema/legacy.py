"""What the chain drops: in a MetaData of its own."""

from sqlalchemy import Column, PrimaryKeyConstraint, String, Table

from pipestate.schema.base import count, legacy_metadata, time

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

# `sites` as it was before 0007, as far as the backfill reads it.
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
