"""A chart's numbers as a table, for those who do not see it: a row for each part of the time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pipestate.report.series import Point, Series, Window

MOST_ROWS = 16


@dataclass(frozen=True, slots=True)
class Span:
    """What was observed in a part of the time; without any number, None."""

    start: datetime
    end: datetime
    lowest: float | None
    highest: float | None
    latest: float | None
    failed: int


def spans(series: Series, window: Window) -> list[Span]:
    """Sum the points up, newest first; a part without points is left out."""
    parts: dict[int, list[Point]] = {}
    for point in series.points:
        part = min(MOST_ROWS - 1, window.slot(point.at, MOST_ROWS)) if window.length else 0
        parts.setdefault(part, []).append(point)
    return [_span(points) for _, points in sorted(parts.items(), reverse=True)]


def _span(points: list[Point]) -> Span:
    values = [point.value for point in points if point.value is not None]
    known: Iterator[float | None] = iter((min(values), max(values), values[-1]) if values else ())
    low, high, latest = next(known, None), next(known, None), next(known, None)
    failed = sum(not point.held for point in points)
    return Span(points[0].at, points[-1].at, low, high, latest, failed)
