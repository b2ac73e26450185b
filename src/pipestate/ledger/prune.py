"""Keep the ledger small: delete what is old, and of what gates rest on as little as possible.

What migrations wrote (gates, forces, purges, applied revisions) and the registry of created objects
stay for ever: they are few, and they are the account of what was done. Of the rest stay, however old:

- the records on which a phase's `soak` rests, and the closed one before them;
- of each sign-off the latest word of each person;
- the latest observation of each name;
- the latest run of each backfill;
- the latest rehearsal of the same files, of either kind.

Older observations go: nobody but the check knows how far back it looks. One over `pipestate.observed` that
wants a week of them sees no more than is left.
"""

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, TextClause, text

from pipestate.ledger.state import require_ledger
from pipestate.ledger.tables import qualified

# A time before which a row is old, in each engine's words.
BORDER = {
    "postgresql": "{time} < statement_timestamp() - make_interval(secs => :seconds)",
    "sqlite": "julianday({time}) < julianday('now') - :seconds / 86400.0",
}
# The ids of the rows that nothing rests on, whatever their age, and the column that tells the age.
SPARE = {
    "run": (
        "recorded_at",
        "SELECT r.id FROM {run} r JOIN {soak} s ON s.runbook = r.runbook AND s.phase = r.phase "
        "WHERE r.event = 'verify' AND r.recorded_at < coalesce(s.last_closed_at, s.held_since)",
    ),
    "attestation": (
        "signed_at",
        "SELECT a.id FROM (SELECT id, row_number() OVER (PARTITION BY runbook, phase, name, "
        "lower(trim(person)) ORDER BY signed_at DESC, id DESC) AS place FROM {attestation}) a WHERE a.place > 1",
    ),
    "observation": (
        "observed_at",
        "SELECT o.id FROM (SELECT id, row_number() OVER (PARTITION BY name "
        "ORDER BY observed_at DESC, id DESC) AS place FROM {observation}) o WHERE o.place > 1",
    ),
    "backfill_progress": (
        "updated_at",
        "SELECT b.id FROM (SELECT id, row_number() OVER (PARTITION BY runbook, name ORDER BY id DESC) AS place "
        "FROM {backfill_progress}) b WHERE b.place > 1",
    ),
    "rehearsal": (
        "rehearsed_at",
        "SELECT r.id FROM (SELECT id, row_number() OVER (PARTITION BY kind, CAST(files AS text) "
        "ORDER BY rehearsed_at DESC, id DESC) AS place FROM {rehearsal}) r WHERE r.place > 1",
    ),
}


@dataclass(frozen=True, slots=True)
class Old:
    """How many rows of a table can go; `looked_back_on` says that checks may look back on them."""

    table: str
    rows: int
    looked_back_on: bool = False


def find_old(connection: Connection, older_than: timedelta) -> list[Old]:
    """Count what `prune` would delete."""
    require_ledger(connection)
    found = []
    for name in SPARE:
        query = _statement(connection, "SELECT count(*) FROM", name)
        rows = int(connection.execute(query, {"seconds": older_than.total_seconds()}).scalar_one())
        found.append(Old(qualified(name, connection.dialect.name), rows, name == "observation"))
    return found


def prune(connection: Connection, older_than: timedelta) -> int:
    """Delete what is older; a run takes its results along. Return how many rows went."""
    require_ledger(connection)
    seconds = {"seconds": older_than.total_seconds()}
    return sum(
        connection.execute(_statement(connection, "DELETE FROM", name), seconds).rowcount for name in SPARE
    )


def _statement(connection: Connection, verb: str, name: str) -> TextClause:
    dialect = connection.dialect.name
    names = {each: qualified(each, dialect) for each in (*SPARE, "soak")}
    time, spare = SPARE[name]
    old = BORDER[dialect].format(time=time)
    return text(f"{verb} {names[name]} WHERE {old} AND id IN ({spare.format(**names)})")
