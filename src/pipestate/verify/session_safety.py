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

from pipestate.database.connections import engine_of, run_own
from pipestate.database.drivers import run_as_written
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
_OWNERS = f"""SELECT concat('the schema ', n.nspname) AS what, n.nspowner AS owner
    FROM pg_namespace n WHERE n.nspname IN ('{SCHEMA}', '{ARCHIVE}')
    UNION ALL
    SELECT concat(n.nspname, '.', c.relname), c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL
    SELECT concat(n.nspname, '.', p.proname, '()'), p.proowner FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('{SCHEMA}', '{ARCHIVE}')"""
# This role, and whether it is a superuser, without the catalogue of roles, which a new session has not cached.
ME = "to_regrole(quote_ident(current_user))::oid"
_I_AM_SUPERUSER = "current_setting('is_superuser') = 'on'"
# Whether this role may act as another one. From 16 on an administrator is a member of every role that it creates,
# without its rights: such a membership does not count.
IS_MEMBER = """(pg_has_role({0}, 'USAGE') OR pg_has_role({0},
        CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END))"""
VERSION_TABLE = "pipestate.version_table"
# This role, a role that it is a member of, a superuser, or the owner of the database. A superuser counts as a member
# of no role: it would trust every role.
TRUSTED = f"""o.owner = {ME}
      OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datdba = o.owner)
      OR (NOT {_I_AM_SUPERUSER} AND {IS_MEMBER.format("o.owner")})"""
# Besides, the owner of the version table, who migrates.
_TRUSTED = f"""({TRUSTED}
      OR EXISTS (SELECT FROM pg_class c WHERE c.relowner = o.owner AND c.oid = to_regclass(<<version_table>>)))"""
_SET_HERE = f"nullif(current_setting('{VERSION_TABLE}', true), '')"
SET_TABLE = text(f"SELECT pg_catalog.set_config('{VERSION_TABLE}', :table, true)")
SET_FILES = text("SELECT pg_catalog.set_config('pipestate.files', :files, true)")
REHEARSAL_VIEWS = ("rehearsed", "compat", "disuse")
_MAY_CHANGE = "pg_has_role(o.owner, 'USAGE')"


def foreign_owner_query(*, to_change: bool = False, version_table: str | None = None) -> str:
    """Render the query for the first object of the ledger that an untrusted role owns, and for that role.

    With `to_change` this role must also have the owner's rights, as an update of the ledger needs. `version_table` is
    the migrations'; without it the transaction's setting counts.
    """
    named = "'" + version_table.replace("'", "''") + "'" if version_table else _SET_HERE
    trusted = _TRUSTED.replace("<<version_table>>", named)
    fine = f"{trusted} AND {_MAY_CHANGE}" if to_change else trusted
    return (
        "SELECT o.what, pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me\n"
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

_SCHEMAS = "SELECT pg_catalog.array_to_json(pg_catalog.current_schemas(false))::text"
_KNOWN_SCHEMAS = "pipestate_schemas"
USES_IMPOSTORS = (
    "it uses what another role has put on the search path in the place of others: {found}. Drop that, or take its "
    "schema off the path"
)


def impostors_query(schemas: str, sql: str) -> str:
    """Render the query for impostors that a query uses; both arguments are SQL expressions, and NULL is any query."""
    return query("impostors", schemas=schemas, query=sql, is_member=IS_MEMBER.format("r.oid"))


def find_impostors(connection: Connection, sql: str) -> str | None:
    """Name the functions, operators and tables of other roles that a query would find in the place of others."""
    if not (schemas := schemas_with_impostors(connection)):
        return None
    ((found,),) = run_own(connection, impostors_query(schemas, _literal(sql)))
    return str(found) if found else None


def schemas_with_impostors(connection: Connection, may_be: bool | None = None) -> str:
    """Write the schemas of the search path, as an SQL expression; the empty text if there is no impostor in them.

    Usually no other role has made any object: then one short query of a connection is enough.
    """
    if engine_of(connection).IS_FILE:
        return ""
    known = connection.info.get(_KNOWN_SCHEMAS)
    if known is None:
        known = ""
        if may_be is None:
            ((may_be,),) = run_own(connection, MAY_BE_IMPOSTORS)
        if may_be:
            schemas = _read_schemas(connection)
            ((found,),) = run_own(connection, impostors_query(schemas, "NULL"))
            known = schemas if found else ""
        connection.info[_KNOWN_SCHEMAS] = known
    return str(known)


def _read_schemas(connection: Connection) -> str:
    names = json.loads(run_as_written(connection, _SCHEMAS).scalar_one())
    return f"ARRAY[{', '.join(map(_literal, names))}]::text[]"


def _literal(value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace("'", "''")
    return f"E'{quoted}'"


# Whether another role has made an object at all.
MAY_BE_IMPOSTORS = query("may_be_impostors", me=ME)


def read_session_safety(connection: Connection) -> tuple[str, ...]:
    """List the warnings about this session, for readers of its report."""
    if engine_of(connection).IS_FILE:
        return ()
    schemas = _read_schemas(connection)
    others = query("others_may_create", schemas=schemas, is_member=IS_MEMBER.format("a.grantee"))
    # One message for all of it, for a distant server.
    around = query("session_safety", others_may_create=others, may_be_impostors=MAY_BE_IMPOSTORS)
    ((superuser, standby, age, open_schemas, may_be),) = run_own(connection, around)
    schemas_with_impostors(connection, may_be=bool(may_be))
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
    return tuple(found)
