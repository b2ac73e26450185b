"""Who has signed, how long that holds, and whose word is still missing."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select

from pipestate.ledger.history import in_utc
from pipestate.runbook.model import SignOff
from pipestate.standing.model import SignOffStanding, Word
from pipestate.standing.source import HORIZON, LedgerReading

MOST_WORDS = 1000

Row = tuple[str, datetime, str | None]  # person, when, note


def read_words(source: LedgerReading, signoffs: Sequence[SignOff]) -> dict[tuple[str, str, str], list[Row]]:
    """Read what people signed, newest first, by runbook, phase and name."""
    said = source.ledger.attestation
    span = max([HORIZON, *(signoff.valid_for for signoff in signoffs)])
    query = (
        select(said.c.runbook, said.c.phase, said.c.name, said.c.person, said.c.signed_at, said.c.note)
        .where(source.of_phases(said.c.runbook, said.c.phase), source.lately(said.c.signed_at, span))
        .order_by(said.c.signed_at.desc(), said.c.id.desc())
        .limit(MOST_WORDS)
    )
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in source.rows(query) if signoffs else ():
        found.setdefault((row.runbook, row.phase, row.name), []).append(_row(row))
    return found


def stand(signoff: SignOff, rows: Iterable[Row], now: datetime) -> SignOffStanding:
    """Compare what was signed with what is asked: the latest word of each person, as the check counts them."""
    latest: dict[str, Word] = {}
    for person, at, note in rows:
        word = _word(person, at, note, signoff.valid_for, now)
        latest.setdefault(person.strip().lower(), word)
    ends = sorted((word.until for word in latest.values() if word.holds), reverse=True)
    return SignOffStanding(
        signoff.id,
        signoff.text,
        signoff.valid_for,
        signoff.people,
        tuple(latest.values()),
        max(0, signoff.people - len(ends)),
        ends[signoff.people - 1] if len(ends) >= signoff.people else None,
    )


def _word(person: str, at: datetime, note: str | None, valid_for: timedelta, now: datetime) -> Word:
    until = at + valid_for
    return Word(person, at, until, holds=now < until, note=note)


def _row(row: Any) -> Row:
    return row.person, in_utc(row.signed_at), row.note
