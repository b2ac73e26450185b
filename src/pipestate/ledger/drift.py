"""Drift: differences between a database, its schema record, and the revision files that were applied."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, select, text

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.core.paths import from_here
from pipestate.database.engines import choose, engine_of
from pipestate.database.schema_digest import named
from pipestate.ledger.functions import require_functions
from pipestate.ledger.history import in_utc
from pipestate.ledger.record import who
from pipestate.ledger.state import find_foreign_owner, has_ledger, look, require_trusted
from pipestate.ledger.tables import ledger_on, qualified
from pipestate.project.file_hashes import hash_file
from pipestate.project.graph import Position
from pipestate.project.revision_files import read_revision
from pipestate.verify.read import read
from pipestate.verify.session_safety import foreign_owner_query

MOST_NAMED = 3  # names per sentence
NO_RECORD = (
    "this database has no record of its schema: install the ledger (pipestate ledger install), and put guard(context) "
    "into env.py; the next upgrade records it"
)
_RECORD = {
    "postgresql": "CALL pipestate.record_schema(:revision, :actor)",
    "sqlite": """INSERT INTO pipestate_schema_record (revision, actor, method, objects)
        SELECT :revision, :actor, (SELECT method FROM pipestate_schema_method),
               (SELECT json_group_array(json_array(o.schema, o.kind, o.name, o.digest)) FROM pipestate_schema_objects o)""",
}
TIMEOUT_S = 10.0
MOST = 100_000


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
    """Differences from a revision's schema record; `incomparable` names both servers if they differ."""

    revision: str | None
    recorded_at: datetime
    differences: tuple[Difference, ...]
    incomparable: str | None = None

    @property
    def sentence(self) -> str | None:
        """Summarize the drift in one line; None if the schema matches."""
        if self.incomparable is not None:
            return f"the schema's record cannot be compared ({self.incomparable}); the next upgrade records it anew"
        if not self.differences:
            return None
        more = len(self.differences) - MOST_NAMED
        shown = ", ".join(str(each) for each in self.differences[:MOST_NAMED])
        return f"schema differs from its record: {shown}" + (f" and {more} more" if more > 0 else "")


def record_schema(connection: Connection, revision: str | None) -> None:
    """Record the current schema; PostgreSQL skips a record that equals the last one."""
    if engine_of(connection).HAS_ROLES:
        require_functions(connection)
    statement = text(choose(_RECORD, connection)).bindparams(bindparam("revision"), bindparam("actor"))
    connection.execute(statement, {"revision": revision, "actor": who()})


def script_record(revision: str | None) -> str:
    """Render the statement that records the schema at the end of a psql script, if the ledger exists.

    The revisions are already applied, so a failure is a warning, as in an online run.
    """
    literal = "NULL" if revision is None else "'" + revision.replace("'", "''") + "'"
    actor = "'" + who().replace("'", "''") + "'"
    return f"""DO $record$
BEGIN
  IF pg_catalog.to_regclass('pipestate.schema_record') IS NOT NULL AND NOT EXISTS (
    {foreign_owner_query()}) THEN
    CALL pipestate.record_schema({literal}, {actor});
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;"""


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
    rows = _rows(connection)
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


def _rows(connection: Connection) -> list[Any]:
    view = qualified("drift", connection.dialect.name)
    query = f"SELECT kind, schema, name, change FROM {view} ORDER BY schema, name, kind"
    return list(connection.exec_driver_sql(query, execution_options={"no_parameters": True}))


def edited_files(connection: Connection, position: Position) -> tuple[str, ...]:
    """Compare the files of applied revisions with the ledger; return one sentence per kind of difference.

    Return an empty tuple without a ledger that this role may read.
    """
    state = look(connection)
    if (
        not state.installed
        or state.missing
        or position.version_table is None
        or find_foreign_owner(connection)
    ):
        return ()
    edited, reused = [], []
    for revision, title, recorded in _recorded(connection, position.version_table):
        path = position.paths.get(revision)
        if (
            path is None
            or revision not in position.applied
            or not path.is_file()
            or hash_file(path) == recorded
        ):
            continue
        now = read_revision(path).title
        if title and now != title:
            reused.append(f'{revision} was "{title}" and is "{now}" in {from_here(path)}')
        else:
            edited.append(str(from_here(path)))
    return tuple(_sentences(edited, reused))


def _sentences(edited: Sequence[str], reused: Sequence[str]) -> Iterator[str]:
    if edited:
        yield f"edited after it was applied here: {_listed(edited)}; write a new revision for a new change"
    if reused:
        yield f"applied here with another content, so the id was reused: {_listed(reused)}; give the new file its own id"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _recorded(connection: Connection, version_table: str) -> list[tuple[str, str | None, str]]:
    """Read the newest upgrade of each revision in this chain: its title and file hash."""
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
