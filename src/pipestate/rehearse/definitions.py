"""The definitions of a database's objects: read by name, or as one digest that is computed where they are.

Without owners and rights the digest is the same wherever the same revisions have run: tenants have roles of their own.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, text

from pipestate.engines.choice import choose
from pipestate.verify.read import read

MOST = 1_000_000  # objects of one file: all that there are
HERE = Path(__file__).parent
AS_WRITTEN = {"no_parameters": True}
SCHEMA = text("SELECT pg_catalog.set_config('pipestate.schema', :schema, true)")
# SHA-256, because a server in FIPS mode has no MD5; in the order of bytes, whatever the database's collation.
DIGEST = """
SELECT pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(coalesce(
  pg_catalog.string_agg(name || ' is ' || definition, ';' ORDER BY name COLLATE "C", definition COLLATE "C"), ''
), 'UTF8')), 'hex') AS digest FROM ({definitions}) AS object
"""


@cache
def query(dialect: str) -> str:
    """The query that lists every object with its definition."""
    return (HERE / f"definitions.{dialect}.sql").read_text(encoding="utf-8")


def limit_to(connection: Connection, schema: str) -> None:
    """PostgreSQL: let the queries see one schema alone, until the end of the transaction."""
    connection.execute(SCHEMA, {"schema": schema})


def read_definitions(connection: Connection, *, rights: bool = True) -> dict[str, str]:
    """Read the definition of every object by its name; with `rights`, whose it is and who may use it."""
    return dict(_rows(connection, rights))


def _rows(connection: Connection, rights: bool) -> Iterator[tuple[str, str]]:
    for name, definition, owner in connection.exec_driver_sql(
        query(connection.dialect.name), execution_options=AS_WRITTEN
    ):
        parts = (owner, definition) if rights else (definition,)
        yield str(name), ", ".join(str(part) for part in parts if part)


def read_digest(connection: Connection, timeout_s: float) -> str:
    """Read one digest of all definitions, without rights; raises QueryFailed as a check would."""
    return choose(DIGESTED, connection)(connection, timeout_s)


def _digested_here(connection: Connection, timeout_s: float) -> str:
    found = read(connection, query("sqlite"), timeout_s, most=MOST)
    return hashlib.sha256(repr(sorted(found.rows)).encode()).hexdigest()


def _digested_there(connection: Connection, timeout_s: float) -> str:
    digest = DIGEST.format(definitions=query("postgresql"))
    return str(read(connection, digest, timeout_s, most=1).rows[0][0])


DIGESTED = {"postgresql": _digested_there, "sqlite": _digested_here}
