"""A tenant's schema: the search path of its session, and its own version table."""

from collections.abc import Mapping, Sequence
from typing import Any

from alembic.runtime.migration import MigrationContext, RevisionStep
from sqlalchemy import Connection, text

from pipestate.core.errors import ConfigError
from pipestate.migration.failure import MigrationError

SCHEMAS = "pipestate_schemas"  # in config.attributes: the schemas of the search path
_SET = text(
    "SELECT pg_catalog.set_config('search_path', :path, false), pg_catalog.set_config('pipestate.tenant', :tenant, false)"
)
_WHERE = text(
    "SELECT pg_catalog.current_schema() AS schema, pg_catalog.current_setting('pipestate.tenant', true) AS tenant"
)


def enter_schema(connection: Connection, path: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Set the search path for the session; return more arguments of `configure`: the version table's schema."""
    schema = path[0]
    given = options.get("version_table_schema")
    if given not in (None, schema):
        raise ConfigError(
            f"env.py keeps its version table in the schema {given}, and the tenant {schema} needs one of its own: leave "
            "version_table_schema out"
        )
    inside = connection.in_transaction()  # the path remains in env.py's transaction
    quote = connection.dialect.identifier_preparer.quote_identifier
    connection.execute(_SET, {"path": ", ".join(map(quote, path)), "tenant": schema})
    found = connection.execute(_WHERE).one()
    if not inside:
        connection.commit()
    if found.schema != schema:
        raise ConfigError(
            f"there is no schema {schema}, or this role may not use it: create it, or grant USAGE on it"
        )
    connection.dialect.default_schema_name = schema
    return {"version_table_schema": schema}


def assert_schema(migration: MigrationContext, step: RevisionStep) -> None:
    """Refuse a step if its session has left the tenant: env.py or a pooler has changed its search path."""
    assert migration.connection is not None
    found = migration.connection.execute(_WHERE).one()
    wanted = migration.version_table_schema
    if (found.schema, found.tenant) != (wanted, wanted):
        raise MigrationError(
            f"the session works in the schema {found.schema}, not in {wanted}, so {step.revision.revision} was not run: "
            "let env.py leave the search path alone, and connect to PostgreSQL itself, or to a pooler in session mode"
        )
