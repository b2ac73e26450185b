"""Trust in a session: who owns the ledger, and what could forge the answers of a check.

Every role that may create a schema can make one named `pipestate` first, with its own tables, views and triggers. The
ledger counts only if trusted roles own all of it. Objects of other roles on the search path may answer a check's query.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, text

from pipestate.core.errors import Unreachable
from pipestate.database.connections import engine_of
from pipestate.database.queries import named_query
from pipestate.project.file_hashes import hash_files
from pipestate.runbook.model import Check, SignOff

query = partial(named_query, "verify")
SCHEMA = "pipestate"
ARCHIVE = "pipestate_archive"
MESSAGE = (
    "%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with "
    "ALTER ... OWNER TO, or connect as its owner"
)
_READS = re.compile(rf"(?i)\b{SCHEMA}\b")
# Functions are qualified: a function on the search path cannot replace them.
_OWNERS = f"""SELECT 'the schema '::text || n.nspname::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname IN ('{SCHEMA}', '{ARCHIVE}')
    UNION ALL
    SELECT n.nspname::text || '.'::text || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL
    SELECT n.nspname::text || '.'::text || p.proname::text || '()'::text, p.proowner
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('{SCHEMA}', '{ARCHIVE}')"""
# This role, and whether it is a superuser, without the catalogue of roles, which a new session has not cached.
ME = "pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid"
_I_AM_SUPERUSER = "pg_catalog.current_setting('is_superuser') = 'on'"
# Whether this role may act as another one. From 16 on an administrator is a member of every role that it creates,
# without its rights: such a membership does not count.
IS_MEMBER = """(pg_catalog.pg_has_role({0}, 'USAGE'::text) OR pg_catalog.pg_has_role({0},
        CASE WHEN pg_catalog.current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END))"""
VERSION_TABLE = "pipestate.version_table"
# This role, a role that it is a member of, a superuser, or the owner of the database. A superuser counts as a member
# of no role: it would trust every role.
TRUSTED = f"""o.owner = {ME}
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR (NOT {_I_AM_SUPERUSER} AND {IS_MEMBER.format("o.owner")})"""
# Besides, the owner of the version table, who migrates.
_TRUSTED = f"""({TRUSTED}
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(<<version_table>>)::oid))"""
_SET_HERE = f"nullif(pg_catalog.current_setting('{VERSION_TABLE}', true), '')"
SET_TABLE = text(f"SELECT pg_catalog.set_config('{VERSION_TABLE}', :table, true)")
SET_FILES = text("SELECT pg_catalog.set_config('pipestate.files', :files, true)")
REHEARSAL_VIEWS = ("rehearsed", "compat", "disuse")
_MAY_CHANGE = "pg_catalog.pg_has_role(o.owner, 'USAGE'::text)"


def foreign_owner_query(*, to_change: bool = False, version_table: str | None = None) -> str:
    """Render the query for the first object of the ledger that an untrusted role owns, and for that role.

    With `to_change` this role must also have the owner's rights, as an update of the ledger needs. `version_table` is
    the migrations'; without it the transaction's setting counts.
    """
    named = "'" + version_table.replace("'", "''") + "'" if version_table else _SET_HERE
    trusted = _TRUSTED.replace("<<version_table>>", named)
    fine = f"{trusted} AND {_MAY_CHANGE}" if to_change else trusted
    return (
        "SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me\n"
        f"    FROM ({_OWNERS}) AS o\n    WHERE NOT ({fine}) LIMIT 1"
    )


def set_version_table(connection: Connection, table: str | None) -> None:
    """Set the version table, until the end of the transaction: its owner may own the ledger.

    Without the setting, as in a migration, the session's role must be the ledger's owner or a member of it.
    """
    if not engine_of(connection).IS_FILE:
        connection.execute(SET_TABLE, {"table": table or ""})


def reads_rehearsals(check: Check | SignOff) -> bool:
    """Say whether a check reads a view of rehearsals."""
    return isinstance(check, Check) and any(view in check.sql.lower() for view in REHEARSAL_VIEWS)


def files_as_json(paths: Mapping[str, Path]) -> str:
    """Write the hashes of the revision files as the setting has them."""
    return json.dumps(hash_files(paths))


def set_file_hashes(
    connection: Connection, checks: Iterable[Check | SignOff], paths: Mapping[str, Path]
) -> None:
    """Set the hashes of the revision files until the end of the transaction or savepoint, if a check needs them.

    The views show only rehearsals of these files; without the setting they are empty. SQLite has no settings.
    """
    if not engine_of(connection).IS_FILE and any(map(reads_rehearsals, checks)):
        connection.execute(SET_FILES, {"files": files_as_json(paths)})


def reads_ledger(sql: str) -> bool:
    """Say whether SQL names the ledger's schema, also in a comment.

    >>> reads_ledger("SELECT * FROM pipestate.soak"), reads_ledger("SELECT * FROM pipestate_archive.manifest")
    (True, False)
    """
    return _READS.search(sql) is not None


SUPERUSER = (
    "checks run as a superuser: whatever function they call runs with all rights. Give verify a role that can only "
    "read; the page Roles of the documentation has its SQL"
)

# Schemas on the path in which another role, except superusers, may create functions.
OTHERS_MAY_CREATE = query("others_may_create", is_member=IS_MEMBER.format("a.grantee"))
# Functions and operators on the path with a name of the server's and an untrusted owner: neither a superuser, nor this
# role or a group of it, nor the owner of the database or schema. Objects of users have an OID of 16384 or more. Also
# tables and views in front of one of the same name, and a schema with this role's name, whose tables `"$user"` finds
# first. Types are exact, so an impostor cannot answer this query.
IMPOSTORS = query("impostors", is_member=IS_MEMBER.format("r.oid"))
# Whether IMPOSTORS could find an object: usually no other role has made one, and this query is shorter.
MAY_HAVE_IMPOSTORS = query("may_have_impostors", me=ME)
# One message for all of it, for a distant server.
AROUND = query("session_safety", others_may_create=OTHERS_MAY_CREATE, may_have_impostors=MAY_HAVE_IMPOSTORS)

IMPOSTORS_FOUND = (
    "somebody else has put names of the server's, a table in front of its namesake, or a schema of this role's name, on "
    "the search path: {found}. A check may read them instead of what was meant"
)


def read_session_safety(connection: Connection) -> tuple[str, ...]:
    """List the warnings about this session, for readers of its report."""
    if engine_of(connection).IS_FILE:
        return ()
    superuser, standby, age, open_schemas, may_have_impostors = connection.exec_driver_sql(
        AROUND, execution_options={"no_parameters": True}
    ).one()
    found = []
    if standby:  # while the primary is idle, the age grows
        last = f"committed {max(age, 0.0):,.0f} s ago" if age is not None else "not known yet"
        found.append(
            f"this is a standby: it shows what it has replayed, and the last transaction of that was {last}. A "
            "primary that is idle looks the same as one that is far ahead: where it matters, verify on the primary"
        )
    if superuser:
        found.append(SUPERUSER)
    if open_schemas:
        found.append(
            f"other roles may create functions in {open_schemas}, which is on the search path: a check could call "
            f"theirs instead of the server's. REVOKE CREATE ON SCHEMA {open_schemas.split(', ')[0]} FROM PUBLIC"
        )
    if impostors := _impostors(connection) if may_have_impostors else None:
        found.append(
            f"{IMPOSTORS_FOUND.format(found=impostors)}, so trust no verdict, and no gate opens, before they are gone"
        )
    return tuple(found)


def refuse_impostors(connection: Connection) -> None:
    """Refuse a session in which another role put impostors on the search path."""
    if engine_of(connection).IS_FILE:
        return
    may_be = connection.exec_driver_sql(
        MAY_HAVE_IMPOSTORS, execution_options={"no_parameters": True}
    ).scalar()
    if may_be and (found := _impostors(connection)):
        said = IMPOSTORS_FOUND.format(found=found)
        raise Unreachable(f"{said}, so the gate cannot be checked: drop them, or take them off the path")


def _impostors(connection: Connection) -> str | None:
    """Name the impostors of another role on the search path."""
    found = connection.exec_driver_sql(IMPOSTORS, execution_options={"no_parameters": True}).scalar()
    return str(found) if found else None
