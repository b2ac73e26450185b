"""What a script asserts about the version table before it goes on."""

from collections.abc import Collection

from alembic import op
from alembic.runtime.migration import MigrationContext

from pipestate.ddl import sql


def version_table(context: MigrationContext) -> str:
    """Name the version table as this project has configured it."""
    schema = context.version_table_schema
    return sql.name(f"{schema}.{context.version_table}" if schema else context.version_table)


def stands_at(context: MigrationContext, heads: Collection[str]) -> str:
    """Write the condition that the version table holds exactly these revisions."""
    wanted = sql.literals(sorted(heads))
    table = version_table(context)
    return f"ARRAY(SELECT version_num::text FROM {table} ORDER BY 1) = ARRAY[{wanted}]::text[]"


def other_version(before: Collection[str], revision: str) -> str:
    """Write the PL/pgSQL that refuses where the revision cannot start, or has run already."""
    table = version_table(op.get_context())
    versions = f"ARRAY(SELECT version_num::text FROM {table})"
    message = (
        f"revision {revision} starts at {' and '.join(before) or 'base'}, but the database is at {{actual}}: "
        "nothing of it was done"
    )
    actual = f"coalesce(nullif(array_to_string({versions}, ' '), ''), 'base')"
    return f"""  IF NOT ({versions} @> ARRAY[{sql.literals(before)}]::text[])
      OR {versions} @> ARRAY[{sql.literal(revision)}]::text[] THEN
    {sql.refusal(message, {"actual": actual})}
  END IF;"""
