"""Whose ledger it is: what belongs to a stranger is neither written to, nor brought up to date, nor read, nor shown.

His views and triggers would run his functions with the rights of whoever reads or writes.
"""

from collections.abc import Callable

from sqlalchemy import Connection

from pipestate.chain.version_table import FOUND
from pipestate.engines.engine import engine_of
from pipestate.errors import OWN_SQLSTATE, ConfigError
from pipestate.verify.strangers import MESSAGE, reads_ledger, strangers

NOT_SHOWN = "until then nothing of the ledger is shown"


def refuse_strangers(*, to_change: bool = False) -> str:
    """Render the same as PL/pgSQL that stops; the block declares `stranger record`.

    FOUND is not asked: a block round this one may have a variable of that name.
    """
    return f"""  {strangers(to_change=to_change).replace("AS me", "AS me INTO stranger", 1)};
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = '{OWN_SQLSTATE}', MESSAGE = pg_catalog.format(
      '{MESSAGE}', stranger.what, stranger.owner, stranger.me);
  END IF;"""


def refuse_strangers_before(sql: str) -> str:
    """Render `refuse_strangers` for a script, in front of SQL that reads the ledger; nothing for other SQL."""
    return refuse_strangers() if reads_ledger(sql) else ""


def require_trusted(connection: Connection) -> None:
    """Refuse a ledger that a stranger has made."""
    if found := find_stranger(connection):
        raise ConfigError(found)


def require_shown(connection: Connection, find_version_table: Callable[[], object]) -> None:
    """Refuse to show a ledger that a stranger has made.

    The version table, whose owner is trusted, is looked for only where that matters.
    """
    if find_stranger(connection) is None:
        return
    find_version_table()
    if found := find_stranger(connection):
        raise ConfigError(f"{found}; {NOT_SHOWN}")


def find_stranger(connection: Connection) -> str | None:
    """Say what of the ledger belongs to whom, and what to do, where that is a stranger.

    Trusted is also who owns the version table, where that was found on this connection or told to its transaction.
    """
    if not engine_of(connection).HAS_ROLES:
        return None
    query = strangers(version_table=connection.info.get(FOUND))
    found = connection.exec_driver_sql(query, execution_options={"no_parameters": True}).first()
    return None if found is None else MESSAGE % (found.what, found.owner, found.me)
