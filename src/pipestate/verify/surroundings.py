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
# neither a superuser, nor this role or a group of it, nor the owner of the database or of the schema.
PLANTED = """
SELECT pg_catalog.string_agg(planted.name, '; ' ORDER BY planted.name)
FROM (
  SELECT p.oid::pg_catalog.regprocedure::text AS name, p.proowner AS owner, p.pronamespace AS namespace
  FROM pg_catalog.pg_proc p
  WHERE EXISTS (SELECT FROM pg_catalog.pg_proc c
                WHERE c.proname = p.proname AND c.pronamespace = 'pg_catalog'::pg_catalog.regnamespace)
  UNION ALL
  SELECT 'operator ' || o.oid::pg_catalog.regoperator::text, o.oprowner, o.oprnamespace
  FROM pg_catalog.pg_operator o
  WHERE EXISTS (SELECT FROM pg_catalog.pg_operator c
                WHERE c.oprname = o.oprname AND c.oprnamespace = 'pg_catalog'::pg_catalog.regnamespace)
) planted
JOIN pg_catalog.pg_namespace n ON n.oid = planted.namespace
JOIN pg_catalog.pg_roles r ON r.oid = planted.owner
WHERE n.nspname = ANY (pg_catalog.current_schemas(false)) AND n.nspname <> 'pg_catalog'
  AND NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> n.nspowner
  AND r.oid <> (SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
  AND (pg_catalog.current_setting('is_superuser') = 'on' OR NOT pg_catalog.pg_has_role(r.oid, 'MEMBER'))
"""


def look_around(connection: Connection) -> tuple[str, ...]:
    """List what a reader of the report should know about the session that made it."""
    if connection.dialect.name != "postgresql":
        return ()
    found = []
    if connection.exec_driver_sql("SELECT pg_catalog.current_setting('is_superuser')").scalar() == "on":
        found.append(SUPERUSER)
    open_schemas = connection.exec_driver_sql(OTHERS_MAY_CREATE).scalar()
    if open_schemas:
        found.append(
            f"other roles may create functions in {open_schemas}, which is on the search path: a check could call "
            f"theirs instead of the server's. REVOKE CREATE ON SCHEMA {open_schemas.split(', ')[0]} FROM PUBLIC"
        )
    return (*found, *find_planted(connection))


def find_planted(connection: Connection) -> tuple[str, ...]:
    """Say which functions somebody else has put where a check may call them instead of the server's."""
    if connection.dialect.name != "postgresql":
        return ()
    planted = connection.exec_driver_sql(PLANTED).scalar()
    if not planted:
        return ()
    return (
        f"somebody else's functions have names of the server's: {planted}. A check may have called them, so trust "
        "no verdict before they are gone",
    )
