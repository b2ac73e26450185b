"""What is around a look and should be known: who runs it, and who could plant a function on its path."""

from sqlalchemy import Connection

SUPERUSER = (
    "checks run as a superuser: whatever function they call runs with all rights. Give verify a role that can only "
    "read (docs/read-only-role.md)"
)

# Schemas on the path in which a role that is not ours, nor a superuser, may create functions.
OTHERS_MAY_CREATE = """
SELECT string_agg(DISTINCT n.nspname, ', ' ORDER BY n.nspname)
FROM pg_catalog.pg_namespace n
CROSS JOIN LATERAL pg_catalog.aclexplode(coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))) a
LEFT JOIN pg_catalog.pg_roles r ON r.oid = a.grantee
WHERE n.nspname = ANY (pg_catalog.current_schemas(false))
  AND a.privilege_type = 'CREATE'
  AND (a.grantee = 0 OR (NOT r.rolsuper AND r.rolname <> 'pg_database_owner'
       AND NOT pg_catalog.pg_has_role(a.grantee, 'MEMBER')))
"""

# Functions and operators on the path that have a name of the server's and an owner whom nobody asked to write checks:
# neither a superuser, nor this role or a group of it, nor the owner of the database or of the schema. What is not the
# server's own has an OID of 16384 or more: its thousands are only asked for their names.
PLANTED = """
WITH place AS MATERIALIZED (
  SELECT n.oid, n.nspowner AS owner FROM pg_catalog.pg_namespace n
  WHERE n.nspname = ANY (pg_catalog.current_schemas(false)) AND n.nspname <> 'pg_catalog'
), found AS MATERIALIZED (
  SELECT true AS is_function, p.oid, p.proname AS name, p.proowner AS owner, place.owner AS place_owner
  FROM place JOIN pg_catalog.pg_proc p ON p.pronamespace = place.oid AND p.oid >= 16384
  UNION ALL
  SELECT false, o.oid, o.oprname, o.oprowner, place.owner
  FROM place JOIN pg_catalog.pg_operator o ON o.oprnamespace = place.oid AND o.oid >= 16384
), planted AS (
  SELECT CASE WHEN found.is_function THEN found.oid::pg_catalog.regprocedure::text
              ELSE 'operator ' || found.oid::pg_catalog.regoperator::text END AS name
  FROM found JOIN pg_catalog.pg_roles r ON r.oid = found.owner
  WHERE CASE WHEN found.is_function
             THEN EXISTS (SELECT FROM pg_catalog.pg_proc c WHERE c.proname = found.name
                          AND c.pronamespace = 'pg_catalog'::pg_catalog.regnamespace)
             ELSE EXISTS (SELECT FROM pg_catalog.pg_operator c WHERE c.oprname = found.name
                          AND c.oprnamespace = 'pg_catalog'::pg_catalog.regnamespace) END
    AND NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> found.place_owner
    AND r.oid <> (SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    AND (pg_catalog.current_setting('is_superuser') = 'on' OR NOT pg_catalog.pg_has_role(r.oid, 'MEMBER'))
)
SELECT pg_catalog.string_agg(planted.name, '; ' ORDER BY planted.name) FROM planted
"""


# All of it in one message: a look at a far server should not wait for each question.
AROUND = f"""
SELECT pg_catalog.current_setting('is_superuser') = 'on', pg_catalog.pg_is_in_recovery(),
       (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp())),
       ({OTHERS_MAY_CREATE}), ({PLANTED})
"""


def look_around(connection: Connection) -> tuple[str, ...]:
    """List what a reader of the report should know about the session that made it."""
    if connection.dialect.name != "postgresql":
        return ()
    superuser, standby, age, open_schemas, planted = connection.exec_driver_sql(
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
    return (*found, *_planted(planted))


def _standby(age: float | None) -> str:
    """Say how old the data may be. An idle primary commits nothing, and then the age only grows."""
    last = f"committed {max(age, 0.0):,.0f} s ago" if age is not None else "not known yet"
    return (
        f"this is a standby: it shows what it has replayed, and the last transaction of that was {last}. A primary "
        "that is idle looks the same as one that is far ahead: where it matters, ask the primary"
    )


def find_planted(connection: Connection) -> tuple[str, ...]:
    """Say which functions somebody else has put where a check may call them instead of the server's."""
    if connection.dialect.name != "postgresql":
        return ()
    return _planted(connection.exec_driver_sql(PLANTED).scalar())


def _planted(functions: str | None) -> tuple[str, ...]:
    if not functions:
        return ()
    return (
        f"somebody else's functions have names of the server's: {functions}. A check may have called them, so trust "
        "no verdict before they are gone",
    )
