"""When can a gate open? From the checks that want days on record, and from what was observed. Pure."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from pipestate.runbook.model import Check, SignOff
from pipestate.runbook.require import Comparison
from pipestate.runbook.statement import tokens
from pipestate.standing.model import Opening, Soak
from pipestate.verify.expect import holds
from pipestate.verify.report import Gate
from pipestate.verify.values import Json
from pipestate.verify.verdict import Outcome, Verdict

DAYS = "days_held"
# A row of this view for each beginning of a streak: behind a gap the days are counted anew.
BEGINS_ANEW = "soak_since"
VIEWS = frozenset({"soak", BEGINS_ANEW})
HUNDREDTH = Decimal("0.01")  # `days_held` is rounded down to hundredths


def find_soaks(
    checks: Iterable[Check | SignOff],
    verdicts: Sequence[Verdict],
    now: datetime,
    closed: Container[str] = (),
) -> tuple[Soak, ...]:
    """Find the checks of a phase that want days on record, and say of each when it can pass.

    `closed` has the phases, as `runbook/phase`, whose gate is closed now.
    """
    judged = (Outcome.PASSED, Outcome.FAILED)
    by_id = {each.check_id: each for each in verdicts if each.outcome in judged and not each.warned}
    return tuple(
        _soak(check, by_id[check.id], required, now, closed)
        for check in checks
        if isinstance(check, Check) and check.id in by_id and views_read(check.sql)
        for required in _required_days(check)
    )


def opening(gate: Gate, soaks: Sequence[Soak], verdicts: Iterable[Verdict]) -> Opening | None:
    """Say when a closed gate can open; None of a gate that is not closed."""
    if gate is not Gate.CLOSED:
        return None
    waiting = {soak.check_id: soak for soak in soaks if not soak.passed}
    by_time = {name for name, soak in waiting.items() if soak.opens_at is not None}
    others = tuple(
        verdict.check_id for verdict in verdicts if verdict.closes and verdict.check_id not in by_time
    )
    moments = [soak.opens_at for soak in waiting.values() if soak.opens_at is not None]
    return Opening(max(moments, default=None), others)


def views_read(sql: str) -> frozenset[str]:
    """List which views of streaks a query reads: a name of one after `pipestate.`.

    >>> sorted(views_read("SELECT 'pipestate.soak' FROM pipestate.soak_since"))
    ['soak_since']
    """
    seen = tokens(sql, "postgresql")
    return frozenset(
        name.identifier
        for schema, dot, name in zip(seen, seen[1:], seen[2:], strict=False)
        if schema.identifier == "pipestate" and dot.text == "." and name.identifier in VIEWS
    )


def _required_days(check: Check) -> Iterator[Decimal]:
    """The most days that the criterion wants, once; nothing where it wants none."""
    wanted = [
        Decimal(each.value) + (HUNDREDTH if each.op == ">" else 0)
        for each in check.require.comparisons
        if _is_days(each) and each.op in (">", ">=") and isinstance(each.value, int | Decimal)
    ]
    if wanted:
        yield max(wanted)


def _soak(check: Check, verdict: Verdict, required: Decimal, now: datetime, closed: Container[str]) -> Soak:
    observed = {name.lower(): value for name, value in verdict.observed.items()}
    days = _number(observed.get(DAYS))
    since = _since(observed, days, now)
    passed = not verdict.went_wrong
    if not passed and not _rest_holds(check, observed):
        since = None
    of = _phase_read(observed)
    return Soak(
        check.id,
        of,
        days,
        float(required),
        since,
        _opens_at(check, since, required, days, now),
        passed,
        ends_next=of is not None and of in closed,
    )


def _opens_at(
    check: Check, since: datetime | None, required: Decimal, days: float | None, now: datetime
) -> datetime | None:
    """A streak that counts goes on; else another begins now at best. A gap inside `soak` stays until it is closed."""
    if since is None and days is not None and BEGINS_ANEW not in views_read(check.sql):
        return None
    try:
        return (since or now) + timedelta(days=float(required))
    except OverflowError:
        return None


def _rest_holds(check: Check, observed: Mapping[str, Json]) -> bool:
    """Say whether what the criterion wants besides the days holds, such as the longest gap."""
    rest = [each for each in check.require.comparisons if not _is_days(each)]
    return all(holds(each, observed.get(each.column.lower())) for each in rest)


def _is_days(comparison: Comparison) -> bool:
    return comparison.column.lower() == DAYS and not isinstance(comparison.value, bool)


def _since(observed: Mapping[str, Json], days: float | None, now: datetime) -> datetime | None:
    """The beginning of the streak: the column `held_since`, else counted back from the days."""
    if days is None:
        return None
    written = observed.get("held_since")
    if isinstance(written, str):
        try:
            moment = datetime.fromisoformat(written)
        except ValueError:
            pass
        else:
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return now - timedelta(days=days)


def _phase_read(observed: Mapping[str, Json]) -> str | None:
    runbook, phase = observed.get("runbook"), observed.get("phase")
    return f"{runbook}/{phase}" if isinstance(runbook, str) and isinstance(phase, str) else None


def _number(value: Json) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]
