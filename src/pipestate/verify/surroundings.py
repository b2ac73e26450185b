"""What is around a look and should be known: who runs it, and who could plant a function on its path."""

from sqlalchemy import Connection

from pipestate.engines.engine import engine_of
from pipestate.errors import Unreachable
from pipestate.verify.strangers import ME

SUPERUSER = (
    "checks run as a superuser: whatever function they call runs with all rights. Give verify a role that can only "
    "read (docs/read-only-role.md)"
)

# Schemas on the path in which a role that is not ours, nor a superuser, may create functions.
OTHERS_MAY_CREATE = """
SELECT pg_catalog.string_agg(DISTINCT n.nspname::text, ', ' ORDER BY n.nspname::text)
FROM pg_catalog.pg_namespace n
CROSS JOIN LATERAL pg_catalog.aclexplode(coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))) a
LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
WHERE n.nspname = ANY (pg_catalog.current_schemas(false))
  AND a.privilege_type = 'CREATE'
  AND (a.grantee = 0::oid OR (NOT r.rolsuper AND r.rolname <> 'pg_database_owner'
       AND NOT pg_catalog.pg_has_role(a.grantee, 'MEMBER')))
"""

# Functions and operators on the path that have a name of the server's and an owner whom nobody asked to write checks:
# neither a superuser, nor this role or a group of it, nor the owner of the database or of the schema. What is not the
# server's own has an OID of 16384 or more: its thousands are only asked for their names. And a schema that has this
# role's name, so that `"$user"` finds its tables before all others, and an owner of that kind. Types are exact, so that
# nothing planted answers this question.
PLANTED = """
WITH place AS MATERIALIZED (
  SELECT n.oid, n.nspname AS name, n.nspowner AS owner FROM pg_catalog.pg_namespace n
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
  SELECT 'schema '::text || pg_catalog.quote_ident(place.name::text), place.owner, 0::oid
  FROM place WHERE place.name = current_user
), planted AS (
  SELECT found.name FROM found JOIN pg_catalog.pg_roles r ON r.oid = found.owner
  WHERE NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> found.place_owner
    AND r.oid <> (SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    AND (pg_catalog.current_setting('is_superuser') = 'on' OR NOT pg_catalog.pg_has_role(r.oid, 'MEMBER'))
)
SELECT pg_catalog.string_agg(planted.name, '; ' ORDER BY planted.name) FROM planted
"""

# Whether there is anything that PLANTED could find: most often nobody else has made a function, and a new session is
# asked a short question instead of a long one.
MAY_BE_PLANTED = f"""
SELECT EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid >= 16384::oid AND p.proowner <> {ME})
  OR EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oid >= 16384::oid AND o.oprowner <> {ME})
  OR EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = current_user AND n.nspowner <> {ME})
"""

PLANTED_BY_OTHERS = (
    "somebody else has put names of the server's, or a schema of this role's name, on the search path: {found}. A check "
    "may read them instead of what was meant"
)

# All of it in one message: a look at a far server should not wait for each question.
AROUND = f"""
SELECT pg_catalog.current_setting('is_superuser') = 'on', pg_catalog.pg_is_in_recovery(),
       (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp())),
       ({OTHERS_MAY_CREATE}), ({MAY_BE_PLANTED})
"""


def look_around(connection: Connection) -> tuple[str, ...]:
    """List what a reader of the report should know about the session that made it."""
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
    """Say how old the data may be. An idle primary commits nothing, and then the age only grows."""
    last = f"committed {max(age, 0.0):,.0f} s ago" if age is not None else "not known yet"
    return (
        f"this is a standby: it shows what it has replayed, and the last transaction of that was {last}. A primary "
        "that is idle looks the same as one that is far ahead: where it matters, ask the primary"
    )


def find_planted(connection: Connection) -> str | None:
    """Name what somebody else has put where a check may read it instead of what was meant."""
    if not engine_of(connection).HAS_ROLES:
        return None
    if not connection.exec_driver_sql(MAY_BE_PLANTED, execution_options={"no_parameters": True}).scalar():
        return None
    return _planted(connection)


def _planted(connection: Connection) -> str | None:
    found = connection.exec_driver_sql(PLANTED, execution_options={"no_parameters": True}).scalar()
    return str(found) if found else None


def refuse_planted(connection: Connection) -> None:
    """Refuse to evaluate anything where somebody else could answer in the server's place."""
    if found := find_planted(connection):
        said = PLANTED_BY_OTHERS.format(found=found)
        raise Unreachable(f"{said}, so the gate cannot be asked: drop them, or take them off the path")
