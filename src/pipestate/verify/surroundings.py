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
    return tuple(found)
