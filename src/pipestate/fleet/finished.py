"""Finished tenants of a fleet upgrade: one connection reads the version tables of all schemas of a database.

A rerun after a kill thereby skips what is done, instead of connecting and verifying a thousand times.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from sqlalchemy import URL, Connection, text

from pipestate.core.errors import PipestateError
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.fleet.ask import Answer
from pipestate.fleet.list import Tenant
from pipestate.project.graph import Chain
from pipestate.project.version_table import DEFAULT, Candidate, Locator
from pipestate.verify.run import describe

AT_ONCE = 200  # version tables per query
# Only tables that this role may read: an error would end the transaction.
TABLES = text("""
SELECT n.nspname::text FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE a.attname = 'version_num' AND NOT a.attisdropped AND c.relname = :name AND c.relkind IN ('r', 'p')
  AND a.atttypid IN ('text'::regtype, 'varchar'::regtype, 'bpchar'::regtype)
  AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
""")


def find_finished(tenants: Sequence[Tenant], locate: Locator, wanted: Collection[str]) -> dict[str, Answer]:
    """Answer for each tenant schema that has every wanted revision; an unreadable database is left to its tenants."""
    by_url: defaultdict[URL, dict[str, Tenant]] = defaultdict(dict)
    for tenant in tenants:
        if tenant.schema is not None and not engine_of(tenant.url).IS_FILE:
            by_url[tenant.url][tenant.schema] = tenant
    found: dict[str, Answer] = {}
    for url, members in by_url.items():
        with suppress(PipestateError):
            found |= {answer.name: answer for answer in _finished(url, members, locate, wanted)}
    return found


def _finished(
    url: URL, members: Mapping[str, Tenant], locate: Locator, wanted: Collection[str]
) -> Iterator[Answer]:
    table, chain = locate.declared.table or DEFAULT, locate.chain
    with db.reader(url) as connection:
        there = {str(row[0]) for row in connection.execute(TABLES, {"name": table})}
    schemas = sorted(there & members.keys())
    for start in range(0, len(schemas), AT_ONCE):
        with db.reader(url) as connection:  # one transaction for all would hold a lock on each table
            for schema, stored in _stored(connection, table, schemas[start : start + AT_ONCE]):
                if not _is_done(chain, stored, wanted):
                    continue
                info = describe(connection, url, chain.position(stored))
                yield Answer(
                    members[schema].name,
                    url,
                    schema,
                    0,
                    dialect=info.dialect,
                    server_version=info.server_version,
                    revision=info.revision,
                    head=info.head,
                )


def _is_done(chain: Chain, stored: Sequence[str], wanted: Collection[str]) -> bool:
    known = all(revision in chain for revision in stored)
    return bool(stored) and known and chain.ancestors(wanted) <= chain.ancestors(stored)


def _stored(
    connection: Connection, table: str, schemas: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Read the revisions in the version table of each schema."""
    query = " UNION ALL ".join(
        f"SELECT {number}, version_num FROM {Candidate(schema, table).quoted}"
        for number, schema in enumerate(schemas)
    )
    stored: defaultdict[int, list[str]] = defaultdict(list)
    for number, revision in connection.exec_driver_sql(query, execution_options={"no_parameters": True}):
        stored[number].append(str(revision))
    for number, revisions in stored.items():
        yield schemas[number], tuple(sorted(revisions))
