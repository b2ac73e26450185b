"""Autogenerate settings for the shipped chain's env.py: its own tables, and SQLite's differences."""

from typing import Any

from sqlalchemy import DateTime, MetaData

from pipestate.pipeline import schema

VERSION_TABLE = "pipestate_alembic_version"
PLUGINS = ("alembic.autogenerate.*", "alembic.ext.checkconstraint_byname")


def is_ours(item: Any, name: str | None, kind: str, reflected: bool, compare_to: Any) -> bool:
    """Exclude the host application's tables, columns and key types from `alembic check`.

    Objects that only the database has are reported only if they are a legacy table or column.
    """
    if not reflected:
        return kind != "column" or "adopted" not in item.info
    if compare_to is not None:
        return True
    if kind == "table":
        return name == schema.site_progress.name
    return kind == "column" and f"{item.table.name}.{name}" in schema.LEGACY_COLUMNS


def without_identities(metadata: MetaData) -> MetaData:
    """Copy the schema for SQLite: without identity columns, because an INTEGER primary key numbers itself."""
    copied = MetaData()
    for table in metadata.sorted_tables:
        for column in table.to_metadata(copied).columns:
            if column.identity is not None:
                column.identity = column.server_default = None
    return copied


def differs_in_type(migration: Any, _inspected: Any, _column: Any, found: Any, wanted: Any) -> bool | None:
    """Treat TIMESTAMP and DATETIME as equal on SQLite, and leave other types to Alembic."""
    del migration
    return False if isinstance(found, DateTime) and isinstance(wanted, DateTime) else None


ON_SQLITE = {"compare_type": differs_in_type, "target_metadata": without_identities(schema.metadata)}
