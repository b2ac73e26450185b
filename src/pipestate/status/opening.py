"""Opening of gates: when a closed gate can open, and times written for people. Pure."""

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from pipestate.core.text import many
from pipestate.runbook.model import Check, SignOff
from pipestate.runbook.statement import tokens
from pipestate.status.model import Opening, Soak
from pipestate.verify.checks import is_met
from pipestate.verify.report import Gate, Json, Outcome, Verdict

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
HALF_A_YEAR = timedelta(days=182)
DAYS = "days_open"
# This view has a row for each start of a streak: the days restart after a gap.
BEGINS_ANEW = "soak_since"
VIEWS = frozenset({"soak", BEGINS_ANEW})
HUNDREDTH = Decimal("0.01")  # `days_open` is rounded down to hundredths


def lasting(length: timedelta) -> str:
    """
    >>> lasting(timedelta(seconds=40)), lasting(timedelta(minutes=5)), lasting(timedelta(hours=26, minutes=40))
    ('40 seconds', '5 minutes', '26 hours')
    >>> lasting(timedelta(days=3, hours=5)), lasting(timedelta(days=40)), lasting(timedelta(minutes=1))
    ('3.2 days', '40 days', '1 minute')
    """
    if length >= 10 * DAY:
        return f"{length // DAY} days"
    if length >= 2 * DAY:
        return f"{days(length / DAY)} days"
    for unit, size in (("hour", HOUR), ("minute", MINUTE)):
        if length >= size:
            return many(length // size, unit)
    return many(max(0, int(length.total_seconds())), "second")


def on(moment: datetime, now: datetime) -> str:
    """Write a moment at a fixed width; add the year if it is ambiguous.

    >>> now = datetime(2026, 1, 3)
    >>> on(datetime(2025, 12, 9, 6, 30), now), on(datetime(2025, 1, 2, 6, 30), now)
    ('Dec 09 06:30', '2025 Jan 02 06:30')
    """
    return f"{moment:%b %d %H:%M}" if abs(moment - now) < HALF_A_YEAR else f"{moment:%Y %b %d %H:%M}"


def days(number: float) -> str:
    """Write a number of days, rounded down: an unfinished day must not count.

    >>> days(6.99), days(7.0), days(3.25), days(12.4)
    ('6.9', '7', '3.2', '12.4')
    """
    cut = int(number * 10 + 1e-6) / 10
    return f"{cut:.0f}" if cut == int(cut) else f"{cut:.1f}"


def find_soaks(
    checks: Iterable[Check | SignOff], verdicts: Sequence[Verdict], now: datetime, closed: Container[str] = ()
) -> tuple[Soak, ...]:
    """Find the checks of a phase that require days on record, and when each can pass.

    `closed` holds the phases, as `runbook/phase`, with a gate that is closed now.
    """
    judged = (Outcome.PASSED, Outcome.FAILED)
    by_id = {each.check_id: each for each in verdicts if each.outcome in judged and not each.warned}
    found = (
        _soak(check, by_id[check.id], now, closed)
        for check in checks
        if isinstance(check, Check) and check.id in by_id and views_read(check.sql)
    )
    return tuple(soak for soak in found if soak is not None)


def opening(gate: Gate, soaks: Sequence[Soak], verdicts: Iterable[Verdict]) -> Opening | None:
    """Return when a closed gate can open; None if the gate is not closed."""
    if gate is not Gate.CLOSED:
        return None
    waiting = {soak.check: soak for soak in soaks if not soak.passed}
    by_time = {name for name, soak in waiting.items() if soak.opens_at is not None}
    others = tuple(
        verdict.check_id for verdict in verdicts if verdict.closes and verdict.check_id not in by_time
    )
    moments = [soak.opens_at for soak in waiting.values() if soak.opens_at is not None]
    return Opening(max(moments, default=None), others)


def views_read(sql: str) -> frozenset[str]:
    """List the streak views that a query reads: names after `pipestate.`.

    >>> sorted(views_read("SELECT 'pipestate.soak' FROM pipestate.soak_since"))
    ['soak_since']
    """
    seen = tokens(sql, "postgresql")
    return frozenset(
        name.identifier
        for schema, dot, name in zip(seen, seen[1:], seen[2:], strict=False)
        if schema.identifier == "pipestate" and dot.text == "." and name.identifier in VIEWS
    )


def _soak(check: Check, verdict: Verdict, now: datetime, closed: Container[str]) -> Soak | None:
    """Describe a check that requires days on record; None if its criterion requires none."""
    comparisons = check.require.comparisons
    of_days = [each for each in comparisons if each.column.lower() == DAYS]
    wanted = [
        Decimal(each.value) + (HUNDREDTH if each.op == ">" else 0)
        for each in of_days
        if each.op in (">", ">=") and type(each.value) in (int, Decimal)
    ]
    if not wanted:
        return None
    required = float(max(wanted))
    observed = {name.lower(): value for name, value in verdict.observed.items()}
    days = _number(observed.get(DAYS))
    since, passed = _since(observed, days, now), not verdict.went_wrong
    others = [each for each in comparisons if each not in of_days]  # such as the longest gap
    if not passed and not all(is_met(each, observed.get(each.column.lower())) for each in others):
        since = None
    opens_at = None
    # A gap inside a streak of `soak` stays until a closed record ends that streak; another view begins anew.
    if since is not None or days is None or BEGINS_ANEW in views_read(check.sql):
        with suppress(OverflowError):
            opens_at = (since or now) + timedelta(days=required)
    book, phase = observed.get("runbook"), observed.get("phase")
    of = f"{book}/{phase}" if isinstance(book, str) and isinstance(phase, str) else None
    return Soak(check.id, of, days, required, since, opens_at, passed, of in closed)


def _since(observed: Mapping[str, Json], days: float | None, now: datetime) -> datetime | None:
    """Return the start of the streak: the column `open_since`, else computed from the days."""
    if days is None:
        return None
    written = observed.get("open_since")
    if isinstance(written, str):
        try:
            moment = datetime.fromisoformat(written)
        except ValueError:
            pass
        else:
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return now - timedelta(days=days)


def _number(value: Json) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]
