"""Inventory of production for a clone, read from its catalogue.

Each query needs only a role that may read.
"""

from dataclasses import dataclass
from typing import Any

from pipestate.rehearse.copying.session import ask

OWN = "n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'"
NOT_OF_AN_EXTENSION = """NOT EXISTS (SELECT FROM pg_catalog.pg_depend e
    WHERE e.classid = 'pg_catalog.pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')"""
NAME = "CASE WHEN n.nspname = 'public' THEN c.relname::text ELSE n.nspname || '.' || c.relname END"
DATABASE = """
SELECT to_jsonb(about) FROM (
    SELECT pg_catalog.current_setting('server_version_num')::int / 10000 AS version,
        session_user AS role,
        replace(pg_catalog.current_setting('search_path'), '"$user"', quote_ident(session_user)) AS search_path,
        pg_catalog.pg_database_size(d.oid) AS bytes,
        pg_catalog.pg_is_in_recovery() AS in_recovery,
        pg_catalog.pg_encoding_to_char(d.encoding) AS encoding,
        EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'public') AS has_public,
        (SELECT count(*) FROM pg_catalog.pg_largeobject_metadata) AS large_objects,
        (SELECT count(*) FROM pg_catalog.pg_subscription s WHERE s.subdbid = d.oid) AS subscriptions,
        EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_tablespace t ON t.oid = c.reltablespace
            WHERE t.spcname <> 'pg_global') AS has_tablespaces,
        EXISTS (SELECT FROM pg_catalog.pg_seclabel) AS has_labels,
        d AS database
    FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()) about
"""
RELATIONS = f"""
SELECT c.oid::int8, format('%I.%I', n.nspname, c.relname), {NAME}, n.nspname::text,
    c.relkind = 'r',
    coalesce(pg_catalog.pg_table_size(c.oid), 0),
    has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'),
    row_security_active(c.oid),
    c.relpersistence = 'u',
    EXISTS (SELECT FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = c.oid AND a.attname = 'version_num' AND NOT a.attisdropped)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND {OWN} AND {NOT_OF_AN_EXTENSION}
ORDER BY 6 DESC, 2
"""
SEQUENCES = f"""
SELECT format('%I.%I', n.nspname, c.relname), {NAME},
    has_schema_privilege(n.oid, 'USAGE') AND has_sequence_privilege(c.oid, 'SELECT'),
    s.seqincrement,
    (SELECT format('%I.%I', tn.nspname, t.relname) FROM pg_catalog.pg_class t
        JOIN pg_catalog.pg_namespace tn ON tn.oid = t.relnamespace WHERE t.oid = o.refobjid),
    (SELECT quote_ident(a.attname) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = o.refobjid AND a.attnum = o.refobjsubid)
FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_depend o ON o.classid = 'pg_catalog.pg_class'::regclass AND o.objid = c.oid
    AND o.refclassid = 'pg_catalog.pg_class'::regclass AND o.refobjsubid > 0 AND o.deptype IN ('a', 'i')
WHERE c.relpersistence <> 't' AND {OWN} AND {NOT_OF_AN_EXTENSION}
ORDER BY 1
"""
# Members of an extension, and their parts (the array of a type, the index of a table). Other objects that depend
# on one of these need the extension.
EXTENSIONS = """
WITH RECURSIVE part (extension, classid, objid) AS (
    SELECT refobjid, classid, objid FROM pg_catalog.pg_depend
    WHERE refclassid = 'pg_catalog.pg_extension'::regclass AND deptype = 'e'
    UNION
    SELECT part.extension, d.classid, d.objid FROM part JOIN pg_catalog.pg_depend d
        ON d.refclassid = part.classid AND d.refobjid = part.objid AND d.deptype IN ('i', 'a'))
SELECT e.extname::text, ARRAY(
    SELECT DISTINCT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
    FROM part JOIN pg_catalog.pg_depend d ON d.refclassid = part.classid AND d.refobjid = part.objid
    WHERE part.extension = e.oid AND d.deptype = 'n' AND d.classid <> 'pg_catalog.pg_extension'::regclass
    AND NOT EXISTS (SELECT FROM part other WHERE other.classid = d.classid AND other.objid = d.objid)
    ORDER BY 1 LIMIT 3)
FROM pg_catalog.pg_extension e ORDER BY 1
"""
EXTENSION_TABLES = """
SELECT format('%I.%I', n.nspname, c.relname)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_depend e ON e.classid = 'pg_catalog.pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e'
WHERE c.relkind IN ('r', 'p', 'S') ORDER BY 1
"""
VIEWS = f"""
SELECT format('%I.%I', n.nspname, c.relname)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm' AND c.relispopulated AND {OWN} AND {NOT_OF_AN_EXTENSION} ORDER BY c.oid
"""
FOREIGN_TABLES = f"""
SELECT {NAME} FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'f' AND {OWN} AND {NOT_OF_AN_EXTENSION} ORDER BY 1
"""
# Roles that cannot log in: they own objects, hold grants and appear in policies. Owners of event
# triggers become superusers, as PostgreSQL requires; managed servers have exceptions.
ROLES = """
SELECT format('CREATE ROLE %I NOLOGIN', r.rolname)
    || CASE WHEN r.rolsuper OR r.oid IN (SELECT evtowner FROM pg_catalog.pg_event_trigger) THEN ' SUPERUSER' ELSE '' END
    || CASE WHEN r.rolbypassrls THEN ' BYPASSRLS' ELSE '' END || CASE WHEN r.rolinherit THEN '' ELSE ' NOINHERIT' END
    || CASE WHEN r.rolcreaterole THEN ' CREATEROLE' ELSE '' END || CASE WHEN r.rolcreatedb THEN ' CREATEDB' ELSE '' END
FROM pg_catalog.pg_roles r WHERE r.rolname NOT LIKE 'pg\\_%' AND r.rolname <> 'postgres' ORDER BY 1
"""
MEMBERSHIPS = """
SELECT DISTINCT format('GRANT %I TO %I', r.rolname, m.rolname)
FROM pg_catalog.pg_auth_members a JOIN pg_catalog.pg_roles r ON r.oid = a.roleid
JOIN pg_catalog.pg_roles m ON m.oid = a.member WHERE m.rolname NOT LIKE 'pg\\_%' ORDER BY 1
"""
# Settings for every session of this database. A missing library would end each session.
SETTINGS = """
SELECT name, value FROM (
    SELECT split_part(setting, '=', 1) AS name, substr(setting, strpos(setting, '=') + 1) AS value
    FROM pg_catalog.pg_db_role_setting s, unnest(s.setconfig) AS setting
    WHERE s.setrole = 0 AND s.setdatabase = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())) q
WHERE name NOT LIKE '%preload_libraries' AND name NOT LIKE '%tablespace%' AND name <> 'search_path' ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, or the parent of partitions; `quoted` is its name in SQL."""

    oid: int
    quoted: str
    name: str
    schema: str
    has_rows: bool
    bytes: int
    is_readable: bool
    hides_rows: bool
    is_unlogged: bool
    is_version_table: bool


@dataclass(frozen=True, slots=True)
class Counter:
    """A sequence, and the column that owns it, if any."""

    quoted: str
    name: str
    is_readable: bool
    increment: int
    table: str | None
    column: str | None


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension, and some objects that need it."""

    name: str
    needed_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Inventory:
    """The whole inventory. `database` is the row of pg_database; its columns differ by version."""

    version: int
    role: str
    search_path: str
    bytes: int
    in_recovery: bool
    encoding: str
    has_public: bool
    large_objects: int
    subscriptions: int
    has_tablespaces: bool
    has_labels: bool
    database: dict[str, Any]
    relations: tuple[Relation, ...]
    counters: tuple[Counter, ...]
    extensions: tuple[Extension, ...]
    extension_tables: tuple[str, ...]
    materialized_views: tuple[str, ...]
    foreign_tables: tuple[str, ...]
    roles: tuple[str, ...]  # SQL statements
    settings: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return str(self.database["datname"])

    @property
    def path(self) -> str:
        """The search path, in the syntax of SET."""
        return self.search_path or "''"

    @property
    def locale(self) -> str:
        return str(
            self.database.get("datlocale") or self.database.get("daticulocale") or self.database["datcollate"]
        )


def read_inventory(driver: Any) -> Inventory:
    """Read the inventory inside the open transaction."""
    (about,) = ask(driver, DATABASE)
    return Inventory(
        **about[0],
        relations=tuple(Relation(*row) for row in ask(driver, RELATIONS)),
        counters=tuple(Counter(*row) for row in ask(driver, SEQUENCES)),
        extensions=tuple(Extension(name, tuple(needed_by)) for name, needed_by in ask(driver, EXTENSIONS)),
        extension_tables=tuple(name for (name,) in ask(driver, EXTENSION_TABLES)),
        materialized_views=tuple(name for (name,) in ask(driver, VIEWS)),
        foreign_tables=tuple(name for (name,) in ask(driver, FOREIGN_TABLES)),
        roles=tuple(statement for query in (ROLES, MEMBERSHIPS) for (statement,) in ask(driver, query)),
        settings=tuple((name, value) for name, value in ask(driver, SETTINGS)),
    )
