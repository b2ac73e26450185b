"""The ledger in a revision: the block that `pipestate.ledger.install` renders, online and in scripts."""

from collections.abc import Callable

from alembic import op
from sqlalchemy import Connection, text

from pipestate.ledger.functions import assertion, fault_of, remove_block
from pipestate.ledger.install import DECLARE, block
from pipestate.ledger.record import WRITTEN_BY_ITSELF
from pipestate.ledger.state import LedgerState, read_ledger_state
from pipestate.ledger.tables import KEPT, SCHEMA, VIEWS, ledger_on, qualified
from pipestate.migration import sql
from pipestate.migration.failure import translate_errors, warn
from pipestate.migration.postgresql.calls import functions_installed
from pipestate.migration.postgresql.session import LOCK_KEY, TENANT
from pipestate.verify.session_safety import ARCHIVE

REGISTRY = ("object", "soft_drop")
_ONE_AT_A_TIME = text(f"SELECT pg_advisory_xact_lock({LOCK_KEY[0]}, {LOCK_KEY[1] + 1})")
DROP_EMPTY_SCHEMA = f"""  IF to_regnamespace('{SCHEMA}') IS NOT NULL AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace('{SCHEMA}')) THEN
    DROP SCHEMA {SCHEMA};
  END IF;
  IF to_regnamespace('{SCHEMA}') IS NULL AND to_regnamespace('{ARCHIVE}') IS NOT NULL AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace('{ARCHIVE}')) THEN
    DROP SCHEMA {ARCHIVE};
  END IF;"""


def install_ledger() -> None:
    """Install the ledger. In scripts of migrations with a registry, the first revision has the functions."""
    if not _is_shared(lambda connection: read_ledger_state(connection) == LedgerState(True, ())):
        text = block(functions=assertion() if sql.keeps_registry() and sql.is_offline() else None)
        _do(text, DECLARE, why="the ledger, where it is missing or older")
    functions_installed()


def install_objects() -> None:
    if not _is_shared(lambda connection: True):
        _do(block(only=REGISTRY), DECLARE, why="the registry of created objects, and the soft drop")
    functions_installed()


def _is_shared(has_tables: Callable[[Connection], bool]) -> bool:
    """Say, for a tenant of a fleet, whether another tenant has installed the same.

    One at a time installs it.
    """
    if sql.is_offline() or op.get_bind().scalar(TENANT) is None:
        return False
    connection = op.get_bind()
    for statement in (None, _ONE_AT_A_TIME):
        if statement is not None:
            connection.execute(statement)
        if fault_of(connection) is None and has_tables(connection):
            return True
    return False


def remove_ledger() -> None:
    ledger = ledger_on("postgresql")
    tables = [
        str(table)
        for table in reversed(ledger.tables)
        if table.name not in REGISTRY or not sql.keeps_registry()
    ]
    views = "\n".join(f"  DROP VIEW IF EXISTS {qualified(view, 'postgresql')};" for view in reversed(VIEWS))
    routines = "" if sql.keeps_registry() else remove_block()
    dropped = "\n".join(f"  DROP TABLE IF EXISTS {table};" for table in tables)
    read = "\n".join(
        f"""  IF NOT used AND to_regclass('{table}') IS NOT NULL THEN
    EXECUTE {sql.literal(f"SELECT EXISTS (SELECT FROM {table}{_worth_keeping(table)})")} INTO used;
  END IF;"""
        for table in tables
        if table != qualified("schema_record", "postgresql")
    )
    _do(
        f"""{read}
  IF used THEN
    RAISE WARNING '{KEPT}';
    RETURN;
  END IF;
{views}
{routines}
{dropped}
{DROP_EMPTY_SCHEMA}""",
        "  used boolean := false;\n  todo text;",
        why="drop the ledger, unless it has rows",
    )
    run = f"SELECT to_regclass('{qualified('run', 'postgresql')}')"
    if not sql.is_offline() and op.get_bind().exec_driver_sql(run).scalar() is not None:
        warn(KEPT)  # drivers hide the server's warning


def remove_objects() -> None:
    run = qualified("run", "postgresql")  # a remaining ledger keeps all of its tables
    dropped = qualified("soft_drop", "postgresql")
    drop = f"""  IF to_regclass('{dropped}') IS NULL OR to_regclass('{run}') IS NOT NULL
      OR EXISTS (SELECT FROM {dropped}{_worth_keeping(dropped)}) THEN
    RETURN;
  END IF;
{remove_block()}
  DROP TABLE {dropped};
  DROP TABLE {qualified("object", "postgresql")};
{DROP_EMPTY_SCHEMA}"""
    sql.do(drop, "  todo text;", why="the registry of created objects")


def _worth_keeping(table: str) -> str:
    """Render the condition for rows worth keeping: all except automatic rows of applied revisions."""
    if table == qualified("soft_drop", "postgresql"):
        return " WHERE state IN ('hidden', 'validating')"
    is_run = table == qualified("run", "postgresql")
    return f" WHERE event NOT IN ({sql.literals(WRITTEN_BY_ITSELF)})" if is_run else ""


def _do(body: str, declare: str, *, why: str) -> None:
    if sql.is_offline():
        sql.do(body, declare, why=why)
        return
    with translate_errors(op.get_bind().engine.url):
        sql.do(body, declare, why=why)
