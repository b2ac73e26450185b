"""Whose ledger it is: what belongs to a stranger is neither written to, nor brought up to date, nor read by a gate."""

from sqlalchemy import Connection

from pipestate.engines.engine import engine_of
from pipestate.errors import OWN_SQLSTATE, ConfigError
from pipestate.verify.strangers import MESSAGE, reads_ledger, strangers


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
    """Refuse to write, on behalf of a migration, into a ledger that a stranger has made."""
    if not engine_of(connection).HAS_ROLES:
        return
    found = connection.exec_driver_sql(strangers()).first()
    if found is not None:
        raise ConfigError(MESSAGE % (found.what, found.owner, found.me))
