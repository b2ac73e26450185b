"""What the shipped chain's env.py tells autogenerate: which of the tables are its own, and SQLite's quirks."""

from typing import Any

from sqlalchemy import DateTime, MetaData

from pipestate import schema

VERSION_TABLE = "pipestate_alembic_version"
PLUGINS = ("alembic.autogenerate.*", "alembic.ext.checkconstraint_byname")


def is_ours(item: Any, name: str | None, kind: str, reflected: bool, compare_to: Any) -> bool:
    """Leave the host application's own tables, columns and types of keys out of `alembic check`.

    Of what is in the database but not in the metadata, only a legacy table or column is a finding.
    """
    if not reflected:
        return kind != "column" or "adopted" not in item.info
    if compare_to is not None:
        return True
    if kind == "table":
        return name == schema.site_progress.name
    return kind == "column" and f"{item.table.name}.{name}" in schema.LEGACY_COLUMNS


def without_identities(metadata: MetaData) -> MetaData:
    """Copy the schema as SQLite has it: without identity columns, an INTEGER primary key counts by itself."""
    copied = MetaData()
    for table in metadata.sorted_tables:
        for column in table.to_metadata(copied).columns:
            if column.identity is not None:
                column.identity = column.server_default = None
    return copied


def differs_in_type(migration: Any, _inspected: Any, _column: Any, found: Any, wanted: Any) -> bool | None:
    """SQLite has no types for times: TIMESTAMP and DATETIME are two spellings. The rest is Alembic's."""
    del migration
    return False if isinstance(found, DateTime) and isinstance(wanted, DateTime) else None


ON_SQLITE = {"compare_type": differs_in_type, "target_metadata": without_identities(schema.metadata)}
