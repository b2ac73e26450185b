"""Drift: differences between a database, its schema record, and the revision files that were applied.

One query for each engine reads the definitions of a database's objects. The ledger records a digest of each, and its
view `drift` compares them. Rehearsals compare the definitions before and after.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, select

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.core.text import from_here, listed
from pipestate.database.connections import choose
from pipestate.database.drivers import run_as_written
from pipestate.ledger.state import has_ledger, is_readable, require_trusted
from pipestate.ledger.tables import in_utc, ledger_on, qualified
from pipestate.project.file_hashes import hash_file
from pipestate.project.graph import Position
from pipestate.project.revision_files import read_revision
from pipestate.verify.read import read

HERE = Path(__file__).parent
# On PostgreSQL the query is the body of a ledger function; a rehearsal works without a ledger.
FILES = {
    "postgresql": HERE.parent / "migration" / "server" / "schema_digest.sql",
    "sqlite": HERE / "schema_digest.sqlite.sql",
}
BODY = "$definitions$"
NO_RECORD = (
    "this database has no record of its schema: install the ledger (pipestate ledger install), and put guard(context) "
    "into env.py; the next upgrade records it"
)
TIMEOUT_S = 10.0
MOST = 100_000


@cache
def definitions_query(dialect: str) -> str:
    """Read the query for `schema, kind, name, definition, rights, left_out`, one row per object."""
    text = choose(FILES, dialect).read_text(encoding="utf-8")
    return text.split(BODY)[1] if BODY in text else text


@cache
def definitions_settings(dialect: str) -> tuple[str, ...]:
    """Read the settings on which the wording depends; two databases are compared under the same ones."""
    head, body, _ = choose(FILES, dialect).read_text(encoding="utf-8").partition(BODY)
    return (
        tuple(f"SET LOCAL {each}" for each in re.findall(r"^SET (.+)$", head, re.MULTILINE)) if body else ()
    )


def read_definitions(connection: Connection) -> dict[str, str]:
    """Read the definition of every object by its name, with its owner and rights."""
    found = run_as_written(connection, definitions_query(connection.dialect.name))
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


@dataclass(frozen=True, slots=True)
class Difference:
    """One object that was added, removed or changed since the record."""

    kind: str
    name: str
    change: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} {self.change}"


@dataclass(frozen=True, slots=True)
class Drift:
    """Differences from a revision's schema record; `incomparable` names both servers if they differ.

    `recorded_at` is None if the migrations built the schema.
    """

    revision: str | None
    recorded_at: datetime | None
    differences: tuple[Difference, ...]
    incomparable: str | None = None

    @property
    def sentence(self) -> str | None:
        """Summarize the drift in one line; None if the schema matches."""
        if self.incomparable is not None:
            return f"the schema's record cannot be compared ({self.incomparable}); the next upgrade makes a new record"
        if not self.differences:
            return None
        return f"schema differs from its record: {listed(map(str, self.differences))}"


def read_drift(connection: Connection, *, schema: str | None = None) -> Drift | None:
    """Compare the schema with its record; `schema` limits the comparison to one schema.

    Return None if the record is missing. Raise ConfigError if the ledger is outdated or owned by another role.
    """
    if not has_ledger(connection):
        return None
    require_trusted(connection)
    table = ledger_on(connection.dialect.name).schema_record
    last = connection.execute(
        select(table.c.revision, table.c.recorded_at).order_by(table.c.id.desc()).limit(1)
    ).first()
    if last is None:
        return None
    view = qualified("drift", connection.dialect.name)
    query = f"SELECT kind, schema, name, change FROM {view} ORDER BY schema, name, kind"
    rows = run_as_written(connection, query).all()
    server = next((row.name for row in rows if row.kind == "server"), None)
    found = (
        Difference(row.kind, named(row.schema, row.name) if schema is None else row.name, row.change)
        for row in rows
        if server is None and schema in (None, row.schema)
    )
    return Drift(last.revision, in_utc(last.recorded_at), tuple(found), server)


def require_drift(connection: Connection) -> Drift:
    """Compare the schema with its record; without a record, raise ConfigError with the next step."""
    found = read_drift(connection)
    if found is None:
        raise ConfigError(NO_RECORD)
    return found


def edited_files(connection: Connection, position: Position) -> tuple[str, ...]:
    """Compare the files of applied revisions with the ledger; return one sentence per kind of difference.

    Return an empty tuple without a ledger that this role may read.
    """
    if position.version_table is None or not is_readable(connection):
        return ()
    edited, reused = [], []
    for revision, title, recorded in _recorded(connection, position.version_table):
        path = position.paths.get(revision)
        if path is None or revision not in position.applied or not path.is_file():
            continue
        if hash_file(path) == recorded:
            continue
        now = read_revision(path).title
        if title and now != title:
            reused.append(f'{revision} was "{title}" and is "{now}" in {from_here(path)}')
        else:
            edited.append(str(from_here(path)))
    said = []
    if edited:
        said.append(
            f"edited after it was applied here: {listed(edited)}; write a new revision for a new change"
        )
    if reused:
        said.append(
            f"applied here with another content, so the id was reused: {listed(reused)}; give the new file its own id"
        )
    return tuple(said)


def _recorded(connection: Connection, version_table: str) -> list[tuple[str, str | None, str]]:
    """Read the newest upgrade of each revision in this project: its title and file hash."""
    run = qualified("run", connection.dialect.name)
    table = version_table.replace("'", "''")
    query = (
        f"SELECT r.revision, r.title, r.file_sha256 FROM {run} r WHERE r.id IN (SELECT max(u.id) FROM {run} u "
        f"WHERE u.event = 'upgrade' AND u.file_sha256 IS NOT NULL AND u.version_table = '{table}' GROUP BY u.revision) "
        "ORDER BY r.id"
    )
    try:
        rows = read(connection, query, TIMEOUT_S, most=MOST).rows
    except PipestateError:  # this role may not read the ledger
        return []
    return [
        (str(revision), None if title is None else str(title), str(hashed))
        for revision, title, hashed in rows
    ]
