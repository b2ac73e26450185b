"""Alembic's way in: autogenerate settings of these migrations. What happens is in pipestate.environment."""

from logging.config import fileConfig
from typing import Any

from alembic import context
from sqlalchemy import DateTime, MetaData

from pipestate import schema
from pipestate.environment import run


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


if context.config.config_file_name is not None and context.config.cmd_opts is not None:
    fileConfig(context.config.config_file_name, disable_existing_loggers=False)

run(
    context,
    metadata=schema.metadata,
    version_table="pipestate_alembic_version",
    registry=True,
    include_object=is_ours,
    plugins=("alembic.autogenerate.*", "alembic.ext.checkconstraint_byname"),
    on_sqlite={"compare_type": differs_in_type, "target_metadata": without_identities(schema.metadata)},
)
