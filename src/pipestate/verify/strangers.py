"""Whose ledger it is: conditions on PostgreSQL's catalogue, asked before a check reads it.

Whoever may create a schema in the database can make one named `pipestate` first, with tables, views and
triggers of his own. What stands in there counts only where all of it belongs to somebody who can be trusted.
"""

import re

from sqlalchemy import Connection, text

from pipestate.engines.engine import engine_of

SCHEMA = "pipestate"
MESSAGE = (
    "%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with "
    "ALTER ... OWNER TO, or connect as its owner"
)
_READS = re.compile(rf"(?i)\b{SCHEMA}\b")
# Functions are qualified: nothing on a search_path may answer in their place.
_OWNERS = f"""SELECT 'the schema {SCHEMA}'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = '{SCHEMA}'
    UNION ALL
    SELECT '{SCHEMA}.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"""
# This role, and whether it is a superuser, without a look into the catalogue of roles: a new session has none of it yet.
ME = "pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid"
_I_AM_SUPERUSER = "pg_catalog.current_setting('is_superuser') = 'on'"
VERSION_TABLE = "pipestate.version_table"
# This role, one of which it is a member, a superuser, the database's owner, or who owns the table in which the chain
# keeps its version: he migrates. A superuser counts as a member of nothing: else he would trust everybody.
_TRUSTED = f"""(o.owner = {ME}
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(<<version_table>>)::oid)
      OR (NOT {_I_AM_SUPERUSER} AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text)))"""
_TOLD = f"nullif(pg_catalog.current_setting('{VERSION_TABLE}', true), '')"
TELL = text(f"SELECT pg_catalog.set_config('{VERSION_TABLE}', :table, true)")
_MAY_CHANGE = "pg_catalog.pg_has_role(o.owner, 'USAGE'::text)"


def strangers(*, to_change: bool = False, version_table: str | None = None) -> str:
    """Render the query for what in the schema belongs to a stranger, and to whom.

    With `to_change` also for what this role may only write to: bringing a ledger up to date takes the
    rights of its owner. `version_table` is the chain's, where it is known; else the one that the transaction was told.
    """
    named = "'" + version_table.replace("'", "''") + "'" if version_table else _TOLD
    trusted = _TRUSTED.replace("<<version_table>>", named)
    fine = f"{trusted} AND {_MAY_CHANGE}" if to_change else trusted
    return (
        "SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me\n"
        f"    FROM ({_OWNERS}) AS o\n    WHERE NOT ({fine}) LIMIT 1"
    )


def tell_version_table(connection: Connection, table: str | None) -> None:
    """Set which table says where the database stands, until the end of the transaction: its owner may own the ledger.

    Where nobody has said it, as in a migration, whoever runs it must be the ledger's owner or a member.
    """
    if engine_of(connection).HAS_SETTINGS:
        connection.execute(TELL, {"table": table or ""})


def reads_ledger(sql: str) -> bool:
    """Say whether SQL names the ledger's schema, be it in a comment.

    >>> reads_ledger("SELECT * FROM pipestate.soak"), reads_ledger("SELECT * FROM pipestate_archive.manifest")
    (True, False)
    """
    return _READS.search(sql) is not None
