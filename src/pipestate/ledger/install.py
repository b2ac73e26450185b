"""Create the ledger, or bring an older one up to date, and nothing else.

On PostgreSQL that is one DO block, which looks at the server at the moment of the change: the same
text runs from the command line, inside a revision, and in a script for psql. It asks for the right to
create a schema only where there is none. On SQLite it is a list of statements, and a look at the
columns that an older table lacks.
"""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Column, Connection, Dialect, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from pipestate.drivers import message, sqlstate
from pipestate.errors import OWN_SQLSTATE, ConfigError
from pipestate.ledger.owners import refuse_strangers
from pipestate.ledger.tables import SCHEMA, Ledger, ledger_on

POSTGRESQL: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
SQLITE: Dialect = sqlite.dialect()
DECLARE = "  path_before text := pg_catalog.current_setting('search_path');\n  stranger record;\n  todo text;"
REFUSE_NAMESAKE = f"""  IF current_user = '{SCHEMA}' AND path_before LIKE '%$user%' THEN
    RAISE EXCEPTION USING ERRCODE = '{OWN_SQLSTATE}', MESSAGE =
      'the role {SCHEMA} has "$user" on its search_path, so the schema {SCHEMA} would stand before public '
      'for it: connect as another role, or ALTER ROLE {SCHEMA} SET search_path = public';
  END IF;"""


def install(connection: Connection) -> None:
    """Install the ledger through this connection; the caller commits."""
    for statement in additions(connection) + statements(connection.dialect.name):
        try:
            connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
        except DBAPIError as error:
            if sqlstate(error) == OWN_SQLSTATE:
                raise ConfigError(message(error).splitlines()[0]) from error
            raise


def statements(dialect: str, *, only: Sequence[str] | None = None) -> list[str]:
    """Render the installation; `only` names tables, and leaves the views out."""
    if dialect == "sqlite":
        return _sqlite(only)
    return [f"DO $pipestate$\nDECLARE\n{DECLARE}\nBEGIN\n{block(only=only)}\nEND $pipestate$"]


def block(*, only: Sequence[str] | None = None) -> str:
    """Render the body of the block for PostgreSQL, which wants the variables of DECLARE."""
    parts = [
        "  PERFORM pg_catalog.set_config('search_path', 'pg_catalog', true);",
        REFUSE_NAMESAKE,
        refuse_strangers(to_change=True),
        f"  IF to_regnamespace('{SCHEMA}') IS NULL THEN\n    CREATE SCHEMA {SCHEMA};\n  END IF;",
    ]
    for table in _chosen(ledger_on("postgresql"), only):
        parts += [_create(table), _add_missing(table), *_indexes(table)]
    if only is None:
        parts += [_indented(view, 2) for view in view_statements("postgresql")]
    parts.append("  PERFORM pg_catalog.set_config('search_path', path_before, true);")
    return "\n".join(parts)


def view_statements(dialect: str) -> list[str]:
    """Read the definitions of the views, each with its semicolon, comments left out."""
    text = Path(__file__).with_name(f"views.{dialect}.sql").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("--")]
    return [f"{statement.strip()};" for statement in "\n".join(lines).split(";") if statement.strip()]


def additions(connection: Connection) -> list[str]:
    """On SQLite, what an older ledger's tables lack; PostgreSQL's block looks for itself."""
    if connection.dialect.name != "sqlite":
        return []
    found = []
    for table in ledger_on("sqlite").tables:
        rows = connection.exec_driver_sql("SELECT name FROM pragma_table_info(?)", (table.name,)).all()
        known = {str(row[0]) for row in rows}
        found += [
            f"ALTER TABLE {table.name} ADD COLUMN {_addition(column, SQLITE)}"
            for column in table.columns
            if known and column.name not in known
        ]
    return found


def _chosen(ledger: Ledger, only: Sequence[str] | None) -> list[Table]:
    return [table for table in ledger.tables if only is None or table.name.removeprefix(f"{SCHEMA}_") in only]


def _create(table: Table) -> str:
    create = _tidy(str(CreateTable(table).compile(dialect=POSTGRESQL)))
    return f"  IF to_regclass('{table}') IS NULL THEN\n{_indented(create, 4)};\n  END IF;"


def _indexes(table: Table) -> list[str]:
    found = []
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        create = CreateIndex(index).compile(dialect=POSTGRESQL)
        found.append(f"  IF to_regclass('{SCHEMA}.{index.name}') IS NULL THEN\n    {create};\n  END IF;")
    return found


def _add_missing(table: Table) -> str:
    wanted = ",\n           ".join(
        f"('{column.name}', $def${_addition(column, POSTGRESQL)}$def$)" for column in table.columns
    )
    return f"""  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES {wanted}) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = '{table}'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE {table} ' || todo;
  END IF;"""


def _addition(column: "Column[object]", dialect: Dialect) -> str:
    """Render a column as it can be added to a table that has rows: without a value it may be NULL there.

    SQLite takes only constants as the default of a column that is added.
    """
    definition = _tidy(str(CreateColumn(column).compile(dialect=dialect)))
    if column.server_default is None:
        return definition.removesuffix(" NOT NULL")
    return definition.partition(" DEFAULT (")[0] if dialect.name == "sqlite" else definition


def _sqlite(only: Sequence[str] | None) -> list[str]:
    found = []
    for table in _chosen(ledger_on("sqlite"), only):
        found.append(_tidy(str(CreateTable(table, if_not_exists=True).compile(dialect=SQLITE))))
        found += [
            str(CreateIndex(index, if_not_exists=True).compile(dialect=SQLITE)) for index in table.indexes
        ]
    if only is None:
        for view in view_statements("sqlite"):
            name = view.split()[2]
            found += [f"DROP VIEW IF EXISTS {name}", view.removesuffix(";")]
    return found


def _tidy(statement: str) -> str:
    return "\n".join(line.rstrip().replace("\t", "  ") for line in statement.strip().splitlines())


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())
