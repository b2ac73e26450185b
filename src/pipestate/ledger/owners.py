"""Whose ledger it is: conditions on PostgreSQL's catalogue.

Whoever may create a schema in the database can make one named `pipestate` first, with tables and
triggers of his own. So a migration writes only into a ledger whose owner it can trust, and installing
is refused in one that belongs to somebody else.
"""

from sqlalchemy import Connection

from pipestate.errors import OWN_SQLSTATE, ConfigError
from pipestate.ledger.tables import SCHEMA

MESSAGE = (
    "%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with "
    "ALTER ... OWNER TO, or connect as its owner"
)
# Functions are qualified: nothing on a search_path may answer in their place.
_OWNERS = f"""SELECT 'the schema {SCHEMA}'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = '{SCHEMA}'
    UNION ALL
    SELECT '{SCHEMA}.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"""
_I_AM_SUPERUSER = "(SELECT me.rolsuper FROM pg_catalog.pg_roles me WHERE me.rolname = current_user)"
# This role, one of which it is a member, a superuser, or the database's owner. A superuser counts as a
# member of nothing: else he would trust everybody.
_TRUSTED = f"""(o.owner = (SELECT me.oid FROM pg_catalog.pg_roles me WHERE me.rolname = current_user)
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR (NOT {_I_AM_SUPERUSER} AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))"""
_MAY_CHANGE = "pg_catalog.pg_has_role(o.owner, 'USAGE'::text)"


def strangers(*, to_change: bool = False) -> str:
    """Render the query for what in the schema belongs to a stranger, and to whom.

    With `to_change` also for what this role may only write to: bringing a ledger up to date takes the
    rights of its owner.
    """
    fine = f"{_TRUSTED} AND {_MAY_CHANGE}" if to_change else _TRUSTED
    return (
        "SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me\n"
        f"    FROM ({_OWNERS}) AS o\n    WHERE NOT ({fine}) LIMIT 1"
    )


def refuse_strangers(*, to_change: bool = False) -> str:
    """Render the same as PL/pgSQL that stops; the block declares `stranger record`.

    FOUND is not asked: a block round this one may have a variable of that name.
    """
    return f"""  {strangers(to_change=to_change).replace("AS me", "AS me INTO stranger", 1)};
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = '{OWN_SQLSTATE}', MESSAGE = pg_catalog.format(
      '{MESSAGE}', stranger.what, stranger.owner, stranger.me);
  END IF;"""


def require_trusted(connection: Connection) -> None:
    """Refuse to write, on behalf of a migration, into a ledger that a stranger has made."""
    if connection.dialect.name != "postgresql":
        return
    found = connection.exec_driver_sql(strangers()).first()
    if found is not None:
        raise ConfigError(MESSAGE % (found.what, found.owner, found.me))
