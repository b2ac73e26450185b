"""A filter for autogenerate: what pipestate keeps in a database is no business of a project's models."""

from collections.abc import MutableMapping
from typing import Any

from pipestate.ledger.tables import SCHEMA, ledger_on

ARCHIVE = "pipestate_archive"


def include_name(name: str | None, type_: str, parent_names: MutableMapping[Any, Any]) -> bool:
    """Leave out the ledger's schema and the archive's; on SQLite, the tables with their prefixes.

    Give it to `context.configure(include_name=...)`. On PostgreSQL autogenerate looks into no other
    schema unless `include_schemas` is set; then it is needed there, too.
    """
    schema = parent_names.get("schema_name")
    if type_ == "schema":
        return not _is_ours(name)
    if type_ != "table" or name is None:
        return True
    if _is_ours(schema):
        return False
    return name not in ledger_on("sqlite").metadata.tables and not name.startswith(f"{ARCHIVE}_")


def _is_ours(schema: str | None) -> bool:
    """Say whether it is the ledger's schema, or an archive: there is one for each schema that was archived from."""
    return schema is not None and (schema in (SCHEMA, ARCHIVE) or schema.startswith(f"{ARCHIVE}_"))
