"""Sign-offs and other ledger records of the selected phases: given, expired and missing ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError
from pipestate.ledger.drift import Drift, read_drift
from pipestate.ledger.soft_drops import SoftDropped, find_orphans, find_soft_drops
from pipestate.ledger.state import NOT_SHOWN, find_foreign_owner, foreign_warning, require_ledger
from pipestate.ledger.tables import in_utc
from pipestate.runbook.model import Check, Phase, Runbook, SignOff
from pipestate.status.facts import read_backfills, read_observations, read_rehearsals
from pipestate.status.model import (
    Backfilling,
    ClosedRecord,
    Day,
    Forced,
    Held,
    Observed,
    RecordedRehearsal,
    RecordedSignOff,
    SignOffStatus,
)
from pipestate.status.records import (
    HORIZON,
    LedgerReading,
    read_days,
    read_forced,
    read_held,
    read_last_closed,
)
from pipestate.verify.read import explain, guarded
from pipestate.verify.report import Report, Verdict

MOST_WORDS = 1000

Row = tuple[str, datetime, str | None, str | None]  # person, time, note, hash of the signed text


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
        found.setdefault((row.runbook, row.phase, row.name), []).append(_row(row))
    return found


def stand(signoff: SignOff, rows: Iterable[Row], now: datetime) -> SignOffStatus:
    """Compare recorded sign-offs with the required ones: each person's latest counts, as in the check."""
    latest: dict[str, RecordedSignOff] = {}
    for person, at, note, text_sha256 in rows:
        if text_sha256 not in (None, signoff.text_sha256):
            continue
        word = _word(person, at, note, signoff.valid_for, now)
        latest.setdefault(person.strip().lower(), word)
    ends = sorted((word.until for word in latest.values() if word.holds), reverse=True)
    return SignOffStatus(
        signoff.id,
        signoff.text,
        signoff.valid_for,
        signoff.people,
        tuple(latest.values()),
        max(0, signoff.people - len(ends)),
        ends[signoff.people - 1] if len(ends) >= signoff.people else None,
    )


def _word(
    person: str, at: datetime, note: str | None, valid_for: timedelta, now: datetime
) -> RecordedSignOff:
    until = at + valid_for
    return RecordedSignOff(person, at, until, holds=now < until, note=note)


def _row(row: Any) -> Row:
    return row.person, in_utc(row.signed_at), row.note, row.text_sha256


@dataclass(frozen=True, slots=True)
class Recorded:
    """Records of the ledger. If `missing` gives a reason, all are empty; an alarming reason is in `warnings` too."""

    missing: str | None = None
    held: Mapping[tuple[str, str], Held] = field(default_factory=dict)
    days: Mapping[tuple[str, str], tuple[Day, ...]] = field(default_factory=dict)
    last_closed: Mapping[tuple[str, str], ClosedRecord] = field(default_factory=dict)
    words: Mapping[tuple[str, str, str], list[Row]] = field(default_factory=dict)
    observations: tuple[Observed, ...] = ()
    forced: Forced | None = None
    backfills: tuple[Backfilling, ...] = ()
    rehearsal: RecordedRehearsal | None = None
    warnings: tuple[str, ...] = ()
    drift: Drift | None = None
    soft_drops: tuple[SoftDropped, ...] = ()


def read_ledger(
    source: LedgerReading,
    phases: Sequence[tuple[Runbook, Phase]],
    report: Report,
    paths: Mapping[str, Path],
    *,
    days: int,
    timeout_s: float,
) -> Recorded:
    """Read all records. A ledger that is missing, outdated, unreadable or another role's becomes one sentence.

    The owner of the version table is trusted if `set_version_table` was called before, as in `verify_on`.
    """
    if found := find_foreign_owner(source.connection):
        return Recorded(said := f"{found}; {NOT_SHOWN}", warnings=(said,))
    try:
        require_ledger(source.connection)
        with guarded(source.connection, timeout_s):
            return _read(source, phases, report, paths, days)
    except ConfigError as error:
        return Recorded(str(error))
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return Recorded(f"the ledger cannot be read: {explain(error, timeout_s)}")


def _read(
    source: LedgerReading,
    phases: Sequence[tuple[Runbook, Phase]],
    report: Report,
    paths: Mapping[str, Path],
    days: int,
) -> Recorded:
    signoffs = [signoff for _, phase in phases for signoff in phase.signoffs]
    return Recorded(
        None,
        read_held(source),
        read_days(source, days),
        read_last_closed(source),
        read_recorded_signoffs(source, signoffs),
        read_observations(source, _asked(source, phases, report)),
        read_forced(source),
        read_backfills(source),
        next(iter(read_rehearsals(source, paths, most=1)), None),
        warnings=(*_orphaned(source), *foreign_warning(source.connection)),
        drift=read_drift(source.connection),
        soft_drops=tuple(find_soft_drops(source.connection)),
    )


def _orphaned(source: LedgerReading) -> tuple[str, ...]:
    found = find_orphans(source.connection)
    if not found:
        return ()
    return (f"{found} has hidden columns that the ledger does not know: a restore cannot find them by name",)


def _asked(
    source: LedgerReading, phases: Sequence[tuple[Runbook, Phase]], report: Report
) -> list[tuple[Check, Verdict, str]]:
    """Pair the checks with their verdicts and addresses."""
    dialect = source.connection.dialect.name
    written = {
        f"{runbook.name}/{phase.name}/{check.id}": check
        for runbook, phase in phases
        for check in phase.checks_for(dialect)
        if isinstance(check, Check)
    }
    found = []
    for runbook, phase in report.phases():
        for verdict in phase.checks:
            address = f"{runbook.name}/{phase.name}/{verdict.check_id}"
            if address in written:
                found.append((written[address], verdict, address))
    return found
