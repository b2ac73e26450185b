"""Facts of the ledger for `status`: observations, backfills, rehearsals, sign-offs; and rows shown as bars."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from pipestate.ledger.history import EARLIEST
from pipestate.ledger.record import REHEARSE
from pipestate.ledger.tables import in_utc
from pipestate.project.file_hashes import hash_files
from pipestate.runbook.model import Check, SignOff
from pipestate.runbook.statement import tokens
from pipestate.status.model import Backfilling, Observed, RecordedRehearsal, RecordedSignOff, SignOffStatus
from pipestate.status.records import AHEAD, HORIZON, LedgerReading, made
from pipestate.verify.report import Json, Verdict

Rows = Sequence[Mapping[str, Json]]


def is_distribution(rows: Rows) -> bool:
    """Tell whether the rows are names with numbers, largest first, and little else.

    >>> is_distribution([{"region": "north", "orders": 12}, {"region": "south", "orders": 3}])
    True
    >>> is_distribution([{"region": "north", "error": "no address"}])
    False
    """
    columns = list(rows[0])
    if not 2 <= len(columns) <= 3:
        return False
    numbers = [row[columns[1]] for row in rows]
    amounts = [number for number in numbers if isinstance(number, int) and number >= 0]
    named = all(isinstance(row[columns[0]], str) for row in rows)
    return named and len(amounts) == len(rows) and amounts == sorted(amounts, reverse=True)


MOST_NAMES = 100
MOST_BACKFILLS = 20
MOST_WORDS = 1000

Row = tuple[str, datetime, str | None, str | None]  # person, time, note, hash of the signed text


def read_observations(
    source: LedgerReading, evaluated: Iterable[tuple[Check, Verdict, str]]
) -> tuple[Observed, ...]:
    """Read the latest observation of each name, and the checks that use it.

    The names are found one by one through the index, and one row is read for each. The cost does not grow with the
    number of rows.
    """
    fact = source.ledger.observation
    known = _names(source)
    other = fact.alias("newest")
    newest = (
        select(other.c.id)
        .where(other.c.name == known.c.name, other.c.observed_at.between(EARLIEST, source.now + AHEAD))
        .order_by(other.c.observed_at.desc(), other.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = select(fact).select_from(known.join(fact, fact.c.id == newest)).order_by(fact.c.name)
    checks = _by_literal(evaluated)
    return tuple(_observed(source, row, checks.get(row.name, ())) for row in source.rows(query))


def read_backfills(source: LedgerReading) -> tuple[Backfilling, ...]:
    """Read the newest run of each backfill of the selected runbooks, from the view `backfill`."""
    backfill = source.view(
        "backfill",
        ("started_at", "updated_at", "finished_at"),
        *("runbook", "id", "table_name", "percent", "rows_updated", "rows_left", "actor"),
    )
    runbooks = sorted({runbook for runbook, _ in source.phases})
    query = (
        select(backfill)
        .where(backfill.c.runbook.in_(runbooks))
        .order_by(backfill.c.updated_at.desc())
        .limit(MOST_BACKFILLS)
    )
    return tuple(made(Backfilling, row, table=row.table_name) for row in source.rows(query))


def read_rehearsals(
    source: LedgerReading, paths: Mapping[str, Path], *, most: int, kinds: Sequence[str] = (REHEARSE,)
) -> tuple[RecordedRehearsal, ...]:
    """Read the newest recorded rehearsals, and compare their files with today's."""
    table = source.ledger.rehearsal
    at = table.c.rehearsed_at
    rows = source.rows(
        select(table)
        .where(at.between(EARLIEST, source.now + AHEAD), table.c.kind.in_(kinds))
        .order_by(at.desc(), table.c.id.desc())
        .limit(most)
    )
    return tuple(_rehearsal(row, paths) for row in rows)


def _names(source: LedgerReading) -> Any:
    """Step from name to name through the index."""
    fact = source.ledger.observation
    known = select(func.min(fact.c.name).label("name")).cte("known", recursive=True)
    following = select(func.min(fact.c.name)).where(fact.c.name > known.c.name).scalar_subquery()
    known = known.union_all(select(following).where(known.c.name.is_not(None)))
    return select(known.c.name).where(known.c.name.is_not(None)).limit(MOST_NAMES).subquery("names")


def _by_literal(
    evaluated: Iterable[tuple[Check, Verdict, str]],
) -> dict[str, tuple[tuple[str, Verdict], ...]]:
    """Map each literal in the checks' SQL to the checks that contain it."""
    found: dict[str, tuple[tuple[str, Verdict], ...]] = {}
    for check, verdict, address in evaluated:
        for literal in {token.text for token in tokens(check.sql, "postgresql") if token.kind == "string"}:
            name = literal.strip("'").replace("''", "'")
            found[name] = (*found.get(name, ()), (address, verdict))
    return found


def _observed(source: LedgerReading, row: Any, checks: tuple[tuple[str, Verdict], ...]) -> Observed:
    return made(
        *(Observed, row),
        value=float(row.value),
        at=row.observed_at,
        age=max(timedelta(0), source.now - in_utc(row.observed_at)),
        checked_by=tuple(dict.fromkeys(address for address, _ in checks)),
        fails=tuple(dict.fromkeys(address for address, verdict in checks if verdict.went_wrong)),
    )


def _rehearsal(row: Any, paths: Mapping[str, Path]) -> RecordedRehearsal:
    today = hash_files({name: paths[name] for name in row.files if name in paths})
    revisions, unchanged = tuple(sorted(row.files)), today == row.files
    return made(
        RecordedRehearsal,
        row,
        at=row.rehearsed_at,
        by=row.actor,
        revisions=revisions,
        ok=bool(row.ok),
        unchanged=unchanged,
    )


def read_recorded_signoffs(
    source: LedgerReading, signoffs: Sequence[SignOff]
) -> dict[tuple[str, str, str], list[Row]]:
    """Read all sign-offs, newest first, by runbook, phase and name."""
    said = source.view(
        "sign_off", ("signed_at",), *("runbook", "phase", "name", "person", "note", "text_sha256")
    )
    span = max([HORIZON, *(signoff.valid_for for signoff in signoffs)])
    query = (
        select(*said.c)
        .where(source.of_phases(said.c.runbook, said.c.phase), source.lately(said.c.signed_at, span))
        .order_by(said.c.signed_at.desc())
        .limit(MOST_WORDS)
    )
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in source.rows(query) if signoffs else ():
        said_by = (row.person, in_utc(row.signed_at), row.note, row.text_sha256)
        found.setdefault((row.runbook, row.phase, row.name), []).append(said_by)
    return found


def stand(signoff: SignOff, rows: Iterable[Row], now: datetime) -> SignOffStatus:
    """Compare recorded sign-offs with the required ones: each person's latest counts, as in the check."""
    latest: dict[str, RecordedSignOff] = {}
    for person, at, note, text_sha256 in rows:
        if text_sha256 not in (None, signoff.text_sha256):
            continue
        until = at + signoff.valid_for
        word = RecordedSignOff(person, at, until, is_valid=now < until, note=note)
        latest.setdefault(person.strip().lower(), word)
    ends = sorted((word.until for word in latest.values() if word.is_valid), reverse=True)
    return SignOffStatus(
        signoff.id,
        signoff.text,
        signoff.valid_for,
        signoff.people,
        tuple(latest.values()),
        max(0, signoff.people - len(ends)),
        ends[signoff.people - 1] if len(ends) >= signoff.people else None,
    )
