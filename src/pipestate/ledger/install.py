"""Installation of the ledger: creates it, or updates an older one.

PostgreSQL gets one DO block, which reads the server's catalogue at run time. The same text runs from the
command line, inside a revision, and in a psql script. It needs the right to create a schema only if the
schema is missing. SQLite gets a list of statements, and the columns that an older table lacks.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Column, Connection, Dialect, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from pipestate.core.errors import OWN_SQLSTATE, ConfigError
from pipestate.database.connections import choose
from pipestate.database.drivers import message, run_as_written, sqlstate
from pipestate.database.queries import filled
from pipestate.ledger.drift import definitions_query
from pipestate.ledger.functions import install_block
from pipestate.ledger.state import refuse_foreign_owner
from pipestate.ledger.tables import SCHEMA, ledger_on
from pipestate.verify.session_safety import ARCHIVE

POSTGRESQL: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
SQLITE: Dialect = sqlite.dialect()
DECLARE = (
    "  path_before text := pg_catalog.current_setting('search_path');\n  other_owner record;\n  todo text;"
)
REFUSE_NAMESAKE = f"""  IF current_user = '{SCHEMA}' AND path_before LIKE '%$user%' THEN
    RAISE EXCEPTION USING ERRCODE = '{OWN_SQLSTATE}', MESSAGE =
      'the role {SCHEMA} has "$user" on its search_path, so the schema {SCHEMA} would stand before public '
      'for it: connect as another role, or ALTER ROLE {SCHEMA} SET search_path = public';
  END IF;"""


def install(connection: Connection) -> None:
    """Install the ledger through this connection; the caller commits."""
    for statement in additions(connection) + statements(connection.dialect.name):
        try:
            run_as_written(connection, statement)
        except DBAPIError as error:
            if sqlstate(error) == OWN_SQLSTATE:
                raise ConfigError(message(error).splitlines()[0]) from error
            raise


def statements(dialect: str, *, only: Sequence[str] | None = None) -> list[str]:
    """Render the installation; `only` names tables, and excludes the views."""
    return choose({"postgresql": _on_postgresql, "sqlite": _on_sqlite}, dialect)(only)


def additions(connection: Connection) -> list[str]:
    """List the missing columns of an older SQLite ledger; on PostgreSQL the block finds them itself."""
    if connection.dialect.name != SQLITE.name:
        return []
    found = []
    for table in ledger_on(SQLITE.name).tables:
        rows = connection.exec_driver_sql("SELECT name FROM pragma_table_info(?)", (table.name,)).all()
        known = {str(row[0]) for row in rows}
        found += [  # SQLite accepts only constants as the default of an added column
            f"ALTER TABLE {table.name} ADD COLUMN {_added_column(column, SQLITE).partition(' DEFAULT (')[0]}"
            for column in table.columns
            if known and column.name not in known
        ]
    return found


def _on_postgresql(only: Sequence[str] | None) -> list[str]:
    return [f"DO $pipestate$\nDECLARE\n{DECLARE}\nBEGIN\n{block(only=only)}\nEND $pipestate$"]


def _on_sqlite(only: Sequence[str] | None) -> list[str]:
    found = []
    for table in _tables("sqlite", only):
        found.append(_tidy(str(CreateTable(table, if_not_exists=True).compile(dialect=SQLITE))))
        found += [
            str(CreateIndex(each, if_not_exists=True).compile(dialect=SQLITE)) for each in table.indexes
        ]
    for view in view_statements("sqlite") if only is None else ():
        found += [f"DROP VIEW IF EXISTS {view.split()[2]}", view.removesuffix(";")]
    return found


def block(*, only: Sequence[str] | None = None, functions: str | None = None) -> str:
    """Render the block's body, which needs the variables of DECLARE; `functions` replaces the default.

    `only` names tables, and excludes the views.
    """
    parts = [
        "  PERFORM pg_catalog.set_config('search_path', 'pg_catalog', true);",
        REFUSE_NAMESAKE,
        refuse_foreign_owner(to_change=True),
        *(
            f"  IF to_regnamespace('{schema}') IS NULL THEN\n    CREATE SCHEMA {schema};\n  END IF;"
            for schema in (SCHEMA, ARCHIVE)
        ),
    ]
    for table in _tables("postgresql", only):
        create = _indented(_tidy(str(CreateTable(table).compile(dialect=POSTGRESQL))), 4)
        parts.append(f"  IF to_regclass('{table}') IS NULL THEN\n{create};\n  END IF;")
        parts.append(_add_missing(table))
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            made = CreateIndex(index).compile(dialect=POSTGRESQL)
            parts.append(f"  IF to_regclass('{SCHEMA}.{index.name}') IS NULL THEN\n    {made};\n  END IF;")
    parts.append(functions or install_block())
    parts += [_indented(view, 2) for view in view_statements("postgresql")] if only is None else []
    parts.append("  PERFORM pg_catalog.set_config('search_path', path_before, true);")
    return "\n".join(parts)


def _add_missing(table: Table) -> str:
    wanted = ",\n           ".join(
        f"('{column.name}', $def${_added_column(column, POSTGRESQL)}$def$)" for column in table.columns
    )
    return f"""  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES {wanted}) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = '{table}'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE {table} ' || todo;
  END IF;"""


def _tables(dialect: str, only: Sequence[str] | None) -> list[Table]:
    tables = ledger_on(dialect).tables
    return [table for table in tables if only is None or table.name.removeprefix(f"{SCHEMA}_") in only]


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


def view_statements(dialect: str) -> list[str]:
    """Read the definitions of the views and their functions, each with its semicolon, without comments."""
    files = (Path(__file__).with_name(f"{name}.{dialect}.sql") for name in ("views", "drift", "disuse"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("--")]
    query = definitions_query(dialect)
    method = hashlib.sha256(query.encode()).hexdigest()[:8]
    return [
        filled(f"{statement.strip()};", definitions=query, method=method)
        for statement in "\n".join(lines).split(";")
        if statement.strip()
    ]


def _added_column(column: "Column[object]", dialect: Dialect) -> str:
    """Render a column for a table that may have rows: without a default it is nullable."""
    definition = _tidy(str(CreateColumn(column).compile(dialect=dialect)))
    return definition.removesuffix(" NOT NULL") if column.server_default is None else definition


def _tidy(statement: str) -> str:
    """Remove the whitespace that SQLAlchemy leaves at line ends and line starts."""
    return "\n".join(line.rstrip().replace("\t", "  ") for line in statement.strip().splitlines())
