"""Session settings that weaken a report: a superuser, a standby, objects that other roles planted on the search path."""

from sqlalchemy import Connection

from pipestate.core.errors import Unreachable
from pipestate.database.connections import engine_of
from pipestate.verify.ledger_owner import IS_MEMBER, ME

SUPERUSER = (
    "checks run as a superuser: whatever function they call runs with all rights. Give verify a role that can only "
    "read (docs/how-to/roles.md)"
)

# Schemas on the path in which another role, except superusers, may create functions.
OTHERS_MAY_CREATE = f"""
SELECT pg_catalog.string_agg(DISTINCT n.nspname::text, ', ' ORDER BY n.nspname::text)
FROM pg_catalog.pg_namespace n
CROSS JOIN LATERAL pg_catalog.aclexplode(coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))) a
LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
WHERE n.nspname = ANY (pg_catalog.current_schemas(false))
  AND a.privilege_type = 'CREATE'
  AND (a.grantee = 0::oid OR (NOT r.rolsuper AND r.rolname <> 'pg_database_owner'
       AND NOT {IS_MEMBER.format("a.grantee")}))
"""

# Functions and operators on the path with a name of the server's and an untrusted owner: neither a superuser, nor this
# role or a group of it, nor the owner of the database or schema. Objects of users have an OID of 16384 or more. Also
# tables and views in front of one of the same name, and a schema with this role's name, whose tables `"$user"` finds
# first. Types are exact, so a planted function cannot answer this query.
PLANTED = f"""
WITH place AS MATERIALIZED (
  SELECT n.oid, n.nspname AS name, n.nspowner AS owner,
         pg_catalog.array_position(pg_catalog.current_schemas(false), n.nspname) AS number
  FROM pg_catalog.pg_namespace n
  WHERE n.nspname = ANY (pg_catalog.current_schemas(false)) AND n.nspname <> 'pg_catalog'::name
), found AS MATERIALIZED (
  SELECT p.oid::pg_catalog.regprocedure::text AS name, p.proowner AS owner, place.owner AS place_owner
  FROM place JOIN pg_catalog.pg_proc p ON p.pronamespace = place.oid AND p.oid >= 16384::oid
  WHERE EXISTS (SELECT FROM pg_catalog.pg_proc c WHERE c.proname = p.proname AND c.pronamespace = 11::oid)
  UNION ALL
  SELECT 'operator '::text || o.oid::pg_catalog.regoperator::text, o.oprowner, place.owner
  FROM place JOIN pg_catalog.pg_operator o ON o.oprnamespace = place.oid AND o.oid >= 16384::oid
  WHERE EXISTS (SELECT FROM pg_catalog.pg_operator c WHERE c.oprname = o.oprname AND c.oprnamespace = 11::oid)
  UNION ALL
  SELECT pg_catalog.quote_ident(place.name::text) || '.'::text || pg_catalog.quote_ident(c.relname::text), c.relowner, place.owner
  FROM place JOIN pg_catalog.pg_class c ON c.relnamespace = place.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  WHERE EXISTS (SELECT FROM pg_catalog.pg_class o JOIN place AS later ON later.oid = o.relnamespace
                WHERE o.relname = c.relname AND later.number > place.number)
  UNION ALL
  SELECT 'schema '::text || pg_catalog.quote_ident(place.name::text), place.owner, 0::oid
  FROM place WHERE place.name = current_user
), planted AS (
  SELECT found.name FROM found JOIN pg_catalog.pg_roles r ON r.oid = found.owner
  WHERE NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> found.place_owner
    AND r.oid <> (SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    AND (pg_catalog.current_setting('is_superuser') = 'on' OR NOT {IS_MEMBER.format("r.oid")})
)
SELECT pg_catalog.string_agg(planted.name, '; ' ORDER BY planted.name) FROM planted
"""

# Whether PLANTED could find an object: usually no other role has made one, and this query is shorter.
MAY_BE_PLANTED = f"""
SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid >= 16384::oid AND p.proowner <> {ME})
  OR EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oid >= 16384::oid AND o.oprowner <> {ME})
  OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid >= 16384::oid AND c.relowner <> {ME})
  OR EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = current_user AND n.nspowner <> {ME})
"""

PLANTED_BY_OTHERS = (
    "somebody else has put names of the server's, a table in front of its namesake, or a schema of this role's name, on "
    "the search path: {found}. A check may read them instead of what was meant"
)

# One message for all of it, for a distant server.
AROUND = f"""
SELECT pg_catalog.current_setting('is_superuser') = 'on', pg_catalog.pg_is_in_recovery(),
       (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp())),
       ({OTHERS_MAY_CREATE}), ({MAY_BE_PLANTED})
"""


def read_session_safety(connection: Connection) -> tuple[str, ...]:
    """List the warnings about this session, for readers of its report."""
    if not engine_of(connection).HAS_ROLES:
        return ()
    superuser, standby, age, open_schemas, may_be_planted = connection.exec_driver_sql(
        AROUND, execution_options={"no_parameters": True}
    ).one()
    found = [_standby(age)] if standby else []
    if superuser:
        found.append(SUPERUSER)
    if open_schemas:
        found.append(
            f"other roles may create functions in {open_schemas}, which is on the search path: a check could call "
            f"theirs instead of the server's. REVOKE CREATE ON SCHEMA {open_schemas.split(', ')[0]} FROM PUBLIC"
        )
    if planted := _planted(connection) if may_be_planted else None:
        found.append(
            f"{PLANTED_BY_OTHERS.format(found=planted)}, so trust no verdict, and no gate opens, before they are gone"
        )
    return tuple(found)


def _standby(age: float | None) -> str:
    """Say how old the data may be. While the primary is idle, the age grows."""
    last = f"committed {max(age, 0.0):,.0f} s ago" if age is not None else "not known yet"
    return (
        f"this is a standby: it shows what it has replayed, and the last transaction of that was {last}. A primary "
        "that is idle looks the same as one that is far ahead: where it matters, ask the primary"
    )


def find_planted(connection: Connection) -> str | None:
    """Name the objects that another role planted on the search path."""
    if not engine_of(connection).HAS_ROLES:
        return None
    if not connection.exec_driver_sql(MAY_BE_PLANTED, execution_options={"no_parameters": True}).scalar():
        return None
    return _planted(connection)


def _planted(connection: Connection) -> str | None:
    found = connection.exec_driver_sql(PLANTED, execution_options={"no_parameters": True}).scalar()
    return str(found) if found else None


def refuse_planted(connection: Connection) -> None:
    """Refuse a session in which another role planted objects on the search path."""
    if found := find_planted(connection):
        said = PLANTED_BY_OTHERS.format(found=found)
        raise Unreachable(f"{said}, so the gate cannot be asked: drop them, or take them off the path")
