"""Recorded numbers over time: read phase by phase through the ledger's indexes, and thinned while reading."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from pipestate.ledger.tables import in_utc, ledger_on
from pipestate.report.series import (
    MOST_POINTS,
    Point,
    Series,
    Window,
    as_number,
    extremes,
    in_time_spans,
    limits,
    observation_limits,
    observed_value,
    satisfied,
    thin,
)
from pipestate.runbook.criterion import Comparison
from pipestate.runbook.model import Check, Phase, Runbook
from pipestate.verify.report import Outcome

Judged = tuple[tuple[Comparison, ...], Point]
STREAMED = {"yield_per": 2000}


@dataclass(frozen=True, slots=True)
class _Run:
    id: int
    at: datetime
    wrong: int


def check_series(connection: Connection, runbook: Runbook, phase: Phase, window: Window) -> list[Series]:
    """Read every number that the checks of a phase compared, in the runbook's order.

    At most MOST_POINTS records are read in full; of records close together the worst is kept.
    """
    total, runs = thin(_runs(connection, runbook, phase, window), window, _worst, slots=MOST_POINTS)
    asked = [check.id for check in phase.checks_for(connection.dialect.name) if isinstance(check, Check)]
    found: dict[tuple[str, str], list[Judged]] = {}
    for row, at in _results(connection, runs):
        if row.check_id in asked and row.outcome != Outcome.SKIPPED:
            for column, judged in _numbers(row, at):
                found.setdefault((row.check_id, column), []).append(judged)
    thinned = total - len(runs)
    return [
        Series(f"{runbook.name}/{phase.name}/{check}", column, in_time_spans(points), len(points) + thinned)
        for (check, column), points in sorted(found.items(), key=lambda item: asked.index(item[0][0]))
        if any(point.value is not None for _, point in points)
    ]


def observation_series(
    connection: Connection, wanted: Mapping[str, tuple[Comparison, ...]], window: Window
) -> list[Series]:
    """Read the external observations with these names, with the limits of today's checks."""
    return [
        series
        for name, comparisons in wanted.items()
        if (series := _observation(connection, name, comparisons, window)).records
    ]


def watched(phases: Sequence[Phase], dialect: str) -> dict[str, tuple[Comparison, ...]]:
    """Return the limits that the checks of these phases set for observations, by the observation's name."""
    found: dict[str, dict[Comparison, None]] = {}
    for check in (check for phase in phases for check in phase.checks_for(dialect)):
        if isinstance(check, Check) and (seen := observation_limits(check)) is not None:
            found.setdefault(seen[0], {}).update(dict.fromkeys(seen[1]))
    return {name: tuple(comparisons) for name, comparisons in found.items()}


def _runs(connection: Connection, runbook: Runbook, phase: Phase, window: Window) -> Iterator[_Run]:
    run = ledger_on(connection.dialect.name).run
    wrong = (run.c.failed + run.c.errored + run.c.warned).label("wrong")
    query = (
        select(run.c.id, run.c.recorded_at, wrong)
        .where(run.c.runbook == runbook.name, run.c.phase == phase.name)
        .where(run.c.recorded_at.between(window.start, window.end))
        .order_by(run.c.recorded_at, run.c.id)
    )
    for row in connection.execute(query, execution_options=STREAMED):
        yield _Run(row.id, in_utc(row.recorded_at), row.wrong)


def _worst(runs: Sequence[_Run]) -> list[_Run]:
    """Choose the run with the most failures, the newest of equals: thinning must keep failures."""
    return [max(runs, key=lambda run: (run.wrong, run.at, run.id))]


def _results(connection: Connection, runs: Sequence[_Run]) -> Iterator[tuple[Any, datetime]]:
    result = ledger_on(connection.dialect.name).result
    times = {run.id: run.at for run in runs}
    query = (
        select(result.c.run_id, result.c.check_id, result.c.outcome, result.c.required, result.c.observed)
        .where(result.c.run_id.in_(times))
        .order_by(result.c.id)
    )
    rows = sorted(connection.execute(query), key=lambda row: (times[row.run_id], row.run_id))
    return ((row, times[row.run_id]) for row in rows)


def _numbers(row: Any, at: datetime) -> Iterator[tuple[str, Judged]]:
    """Yield the numbers of one result that its criterion compares."""
    observed = row.observed if isinstance(row.observed, Mapping) else {}
    for column, comparisons in limits(row.required or "").items():
        value = observed_value(observed, column)
        yield column, (comparisons, Point(at, as_number(value), satisfied(comparisons, value)))


def _observation(
    connection: Connection, name: str, comparisons: tuple[Comparison, ...], window: Window
) -> Series:
    fact = ledger_on(connection.dialect.name).observation
    query = (
        select(fact.c.observed_at, fact.c.value)
        .where(fact.c.name == name, fact.c.observed_at.between(window.start, window.end))
        .order_by(fact.c.observed_at, fact.c.id)
    )
    rows = connection.execute(query, execution_options=STREAMED)
    points = (
        Point(in_utc(row.observed_at), as_number(row.value), satisfied(comparisons, row.value))
        for row in rows
    )
    total, kept = thin(points, window, extremes, slots=MOST_POINTS // 2)
    return Series(name, "value", in_time_spans((comparisons, point) for point in kept), total)
