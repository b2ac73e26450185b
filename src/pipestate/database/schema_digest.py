"""Definitions of a database's objects, as one query for each engine.

Rehearsals compare them before and after. The ledger records a digest of each; its view `drift` compares them.
"""

import re
from functools import cache
from pathlib import Path

from sqlalchemy import Connection

from pipestate.database.engines import choose

AS_WRITTEN = {"no_parameters": True}
HERE = Path(__file__).parent
# On PostgreSQL the query is the body of a ledger function; a rehearsal works without a ledger.
FILES = {
    "postgresql": HERE.parent / "migration" / "server" / "schema_digest.sql",
    "sqlite": HERE / "schema_digest.sqlite.sql",
}
BODY = "$definitions$"


@cache
def definitions_query(dialect: str) -> str:
    """Read the query for `schema, kind, name, definition, rights, left_out`, one row per object."""
    text = choose(FILES, dialect).read_text(encoding="utf-8")
    return text.split(BODY)[1] if BODY in text else text


@cache
def definitions_settings(dialect: str) -> tuple[str, ...]:
    """Read the settings on which the wording depends; two databases are compared under the same ones."""
    text = choose(FILES, dialect).read_text(encoding="utf-8")
    if BODY not in text:
        return ()
    return tuple(f"SET LOCAL {each}" for each in re.findall(r"^SET (.+)$", text.split(BODY)[0], re.MULTILINE))


def read_definitions(connection: Connection) -> dict[str, str]:
    """Read the definition of every object by its name, with its owner and rights."""
    found = connection.exec_driver_sql(
        definitions_query(connection.dialect.name), execution_options=AS_WRITTEN
    )
    return {
        f"{kind} {named(schema, name)}": ", ".join(part for part in (rights, definition) if part)
        for schema, kind, name, definition, rights, _ in found
    }


def named(schema: str, name: str) -> str:
    """Qualify an object's name with its schema, except public.

    >>> named("public", "orders"), named("sales", "orders"), named("", "sales")
    ('orders', 'sales.orders', 'sales')
    """
    return name if schema in ("", "public") else f"{schema}.{name}"
