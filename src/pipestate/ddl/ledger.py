"""The ledger in a revision of any chain: installed, brought up to date, taken away where it is empty."""

import logging

from alembic import op

from pipestate.ddl import objects, sql
from pipestate.ddl.failure import told_plainly
from pipestate.ddl.sqlite import look
from pipestate.ledger.install import DECLARE, additions, block, statements
from pipestate.ledger.tables import SCHEMA, VIEWS, ledger_on, qualified

log = logging.getLogger("pipestate")
KEPT = "the ledger has rows, so this downgrade leaves it as it is; the next upgrade finds it again"
DROP_EMPTY_SCHEMA = f"""  IF to_regnamespace('{SCHEMA}') IS NOT NULL AND NOT EXISTS (
      SELECT FROM pg_class WHERE relnamespace = to_regnamespace('{SCHEMA}')) THEN
    DROP SCHEMA {SCHEMA};
  END IF;"""


def install_ledger() -> None:
    """Create the ledger where it is missing, add what an older one lacks; repeated, it does nothing."""
    _install(only=None)


def install_objects() -> None:
    """Create the part that a chain with a registry needs from its first revision on."""
    _install(only=("object",))


def remove_ledger() -> None:
    """Drop a ledger that holds no row; leave one that does, and say so.

    A chain with a registry keeps that until `remove_objects`.
    """
    dialect = op.get_context().dialect.name
    ledger = ledger_on(dialect)
    tables = [
        str(table) for table in reversed(ledger.tables) if table is not ledger.objects or not objects.kept()
    ]
    drops = [f"DROP VIEW IF EXISTS {qualified(view, dialect)}" for view in reversed(VIEWS)]
    drops += [f"DROP TABLE IF EXISTS {table}" for table in tables]
    if dialect == "sqlite":
        _drop_on_sqlite(tables, drops)
    else:
        _drop_on_postgresql(tables, drops)


def remove_objects() -> None:
    """Drop the registry, and the schema where nothing else is in it."""
    registry = qualified("object", op.get_context().dialect.name)
    if op.get_context().dialect.name == "sqlite":
        sql.emit(f"DROP TABLE IF EXISTS {registry}")
        return
    drop = f"  IF to_regclass('{registry}') IS NOT NULL THEN\n    DROP TABLE {registry};\n  END IF;"
    sql.do(f"{drop}\n{DROP_EMPTY_SCHEMA}", why="the registry of created objects")


def _install(*, only: tuple[str, ...] | None) -> None:
    if op.get_context().dialect.name != "sqlite":
        _do(block(only=only), DECLARE, why="the ledger, where it is missing or older")
        return
    for statement in statements("sqlite", only=only):
        sql.emit(statement)
    if not sql.is_offline():
        for statement in additions(op.get_bind()):
            sql.emit(statement)


def _drop_on_sqlite(tables: list[str], drops: list[str]) -> None:
    if not sql.is_offline() and any(look.has_table(table) and look.has_rows(table) for table in tables):
        log.warning(KEPT)
        return
    for statement in drops:
        sql.emit(statement)


def _drop_on_postgresql(tables: list[str], drops: list[str]) -> None:
    looks = "\n".join(
        f"""  IF NOT used AND to_regclass('{table}') IS NOT NULL THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM {table})' INTO used;
  END IF;"""
        for table in tables
    )
    body = "\n".join(f"  {statement};" for statement in drops)
    _do(
        f"""{looks}
  IF used THEN
    RAISE WARNING '{KEPT}';
    RETURN;
  END IF;
{body}
{DROP_EMPTY_SCHEMA}""",
        "  used boolean := false;",
        why="drop the ledger, unless it has rows",
    )
    run = f"SELECT to_regclass('{qualified('run', 'postgresql')}')"
    if not sql.is_offline() and op.get_bind().exec_driver_sql(run).scalar() is not None:
        log.warning(KEPT)


def _do(body: str, declare: str, *, why: str) -> None:
    if sql.is_offline():
        sql.do(body, declare, why=why)
        return
    with told_plainly(op.get_bind().engine.url):
        sql.do(body, declare, why=why)
