"""The installation of the ledger on PostgreSQL: the body of one DO block.

It looks at the server at the moment of the change: the same text runs from the command line, inside a revision, and
in a script for psql. It asks for the right to create a schema only where there is none.
"""

from collections.abc import Sequence

from sqlalchemy import Dialect, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from pipestate.errors import OWN_SQLSTATE
from pipestate.ledger.definition import added_column, chosen_tables, tidy, view_statements
from pipestate.ledger.owners import refuse_strangers
from pipestate.ledger.tables import SCHEMA, ledger_on

POSTGRESQL: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
DECLARE = "  path_before text := pg_catalog.current_setting('search_path');\n  stranger record;\n  todo text;"
REFUSE_NAMESAKE = f"""  IF current_user = '{SCHEMA}' AND path_before LIKE '%$user%' THEN
    RAISE EXCEPTION USING ERRCODE = '{OWN_SQLSTATE}', MESSAGE =
      'the role {SCHEMA} has "$user" on its search_path, so the schema {SCHEMA} would stand before public '
      'for it: connect as another role, or ALTER ROLE {SCHEMA} SET search_path = public';
  END IF;"""


def block(*, only: Sequence[str] | None = None) -> str:
    """Render the body of the block, which wants the variables of DECLARE."""
    parts = [
        "  PERFORM pg_catalog.set_config('search_path', 'pg_catalog', true);",
        REFUSE_NAMESAKE,
        refuse_strangers(to_change=True),
        f"  IF to_regnamespace('{SCHEMA}') IS NULL THEN\n    CREATE SCHEMA {SCHEMA};\n  END IF;",
    ]
    for table in chosen_tables(ledger_on("postgresql"), only):
        parts += [_create(table), _add_missing(table), *_indexes(table)]
    if only is None:
        parts += [_indented(view, 2) for view in view_statements("postgresql")]
    parts.append("  PERFORM pg_catalog.set_config('search_path', path_before, true);")
    return "\n".join(parts)


def _create(table: Table) -> str:
    create = tidy(str(CreateTable(table).compile(dialect=POSTGRESQL)))
    return f"  IF to_regclass('{table}') IS NULL THEN\n{_indented(create, 4)};\n  END IF;"


def _indexes(table: Table) -> list[str]:
    found = []
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        create = CreateIndex(index).compile(dialect=POSTGRESQL)
        found.append(f"  IF to_regclass('{SCHEMA}.{index.name}') IS NULL THEN\n    {create};\n  END IF;")
    return found


def _add_missing(table: Table) -> str:
    wanted = ",\n           ".join(
        f"('{column.name}', $def${added_column(column, POSTGRESQL)}$def$)" for column in table.columns
    )
    return f"""  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES {wanted}) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = '{table}'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE {table} ' || todo;
  END IF;"""


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())
