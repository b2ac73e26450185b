"""The ledger in a revision: the block that `pipestate.ledger.block` renders, online and in scripts."""

from alembic import op

from pipestate.ddl import objects, sql
from pipestate.ddl.failure import told_plainly
from pipestate.ddl.notice import warn
from pipestate.ledger.block import DECLARE, block
from pipestate.ledger.record import WRITTEN_BY_ITSELF
from pipestate.ledger.tables import KEPT, SCHEMA, VIEWS, ledger_on, qualified

DROP_EMPTY_SCHEMA = f"""  IF to_regnamespace('{SCHEMA}') IS NOT NULL AND NOT EXISTS (
      SELECT FROM pg_class WHERE relnamespace = to_regnamespace('{SCHEMA}')) THEN
    DROP SCHEMA {SCHEMA};
  END IF;"""


def install_ledger() -> None:
    _do(block(), DECLARE, why="the ledger, where it is missing or older")


def install_objects() -> None:
    _do(block(only=("object",)), DECLARE, why="the registry of created objects")


def remove_ledger() -> None:
    ledger = ledger_on("postgresql")
    tables = [
        str(table) for table in reversed(ledger.tables) if table is not ledger.objects or not objects.kept()
    ]
    drops = [f"DROP VIEW IF EXISTS {qualified(view, 'postgresql')}" for view in reversed(VIEWS)]
    drops += [f"DROP TABLE IF EXISTS {table}" for table in tables]
    looks = "\n".join(
        f"""  IF NOT used AND to_regclass('{table}') IS NOT NULL THEN
    EXECUTE {sql.literal(f"SELECT EXISTS (SELECT FROM {table}{_worth_keeping(table)})")} INTO used;
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
    _say_what_stayed()


def remove_objects() -> None:
    registry = qualified("object", "postgresql")
    run = qualified("run", "postgresql")  # a ledger that stays keeps all of its tables
    drop = f"""  IF to_regclass('{registry}') IS NOT NULL AND to_regclass('{run}') IS NULL THEN
    DROP TABLE {registry};
  END IF;"""
    sql.do(f"{drop}\n{DROP_EMPTY_SCHEMA}", why="the registry of created objects")


def _worth_keeping(table: str) -> str:
    """Render the condition for rows that are worth keeping: that a revision was applied is written by itself."""
    is_run = table == qualified("run", "postgresql")
    return f" WHERE event NOT IN ({sql.literals(WRITTEN_BY_ITSELF)})" if is_run else ""


def _say_what_stayed() -> None:
    """Log, online, that the ledger stayed: nobody sees the server's warning there."""
    run = f"SELECT to_regclass('{qualified('run', 'postgresql')}')"
    if not sql.is_offline() and op.get_bind().exec_driver_sql(run).scalar() is not None:
        warn(KEPT)


def _do(body: str, declare: str, *, why: str) -> None:
    if sql.is_offline():
        sql.do(body, declare, why=why)
        return
    with told_plainly(op.get_bind().engine.url):
        sql.do(body, declare, why=why)
