"""A number over time against its criterion, as frozen values: what charts are drawn from. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Protocol, TypeVar

from pipestate.runbook.require import Comparison

MOST_POINTS = 500
# How many times as long as usual nothing must have been written before that is called a gap.
PATIENCE = 1.5


@dataclass(frozen=True, slots=True)
class Window:
    """The time that all charts of a page show."""

    start: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    def slot(self, at: datetime, slots: int) -> int:
        """Say in which of so many equal parts of the window a moment lies."""
        return int((at - self.start) / self.length * slots) if self.length else 0


@dataclass(frozen=True, slots=True)
class Point:
    """What was observed at one moment; no value where there was no number. `held` is the criterion's answer."""

    at: datetime
    value: float | None
    held: bool = True


@dataclass(frozen=True, slots=True)
class Stretch:
    """Points in a row that were judged by the same comparisons."""

    comparisons: tuple[Comparison, ...]
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without any record."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Series:
    """One number of one check, or one observation. `records` counts also those that were thinned out."""

    title: str
    column: str
    stretches: tuple[Stretch, ...]
    records: int
    anchor: str | None = None

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(point for stretch in self.stretches for point in stretch.points)

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(point.value for point in self.points if point.value is not None)

    @property
    def failures(self) -> int:
        """How many of the points did not satisfy the criterion."""
        return sum(not point.held for point in self.points)

    @property
    def required(self) -> str:
        """The criterion of the newest point, as a runbook writes it."""
        newest = self.stretches[-1].comparisons if self.stretches else ()
        return " and ".join(comparison.required for comparison in newest)

    @property
    def is_calm(self) -> bool:
        """Whether the number never moved and never failed: one look at it is enough."""
        return not self.failures and len(set(self.values)) == 1


class Timed(Protocol):
    @property
    def at(self) -> datetime: ...


T = TypeVar("T", bound=Timed)


def thin(
    items: Iterable[T], window: Window, choose: Callable[[Sequence[T]], Iterable[T]], *, slots: int
) -> tuple[int, list[T]]:
    """Count the items, and keep what `choose` takes of each slot of the window; a few are kept as they are.

    The items come in the order of time. What is held in memory does not grow with their number.
    """
    total, kept = 0, list[T]()
    for item in items:
        total += 1
        kept.append(item)
        if len(kept) > 8 * slots:
            kept = _chosen(kept, window, choose, slots)
    return total, kept if total <= slots else _chosen(kept, window, choose, slots)


def _chosen(
    items: Sequence[T], window: Window, choose: Callable[[Sequence[T]], Iterable[T]], slots: int
) -> list[T]:
    together: dict[int, list[T]] = {}
    for item in items:
        together.setdefault(window.slot(item.at, slots), []).append(item)
    return [kept for group in together.values() for kept in sorted(choose(group), key=lambda each: each.at)]


def extremes(points: Sequence[Point]) -> Iterator[Point]:
    """Choose the lowest and the highest of the points: then a line through what is left has the same shape."""
    known = [point for point in points if point.value is not None]
    if known:
        low, high = min(known, key=_value), max(known, key=_value)
        yield low
        if high is not low:
            yield high


def _value(point: Point) -> float:
    return point.value if point.value is not None else 0.0


def in_stretches(points: Iterable[tuple[tuple[Comparison, ...], Point]]) -> tuple[Stretch, ...]:
    """Join the points that were judged by the same comparisons one after the other."""
    stretches: list[tuple[tuple[Comparison, ...], list[Point]]] = []
    for comparisons, point in points:
        if not stretches or stretches[-1][0] != comparisons:
            stretches.append((comparisons, []))
        stretches[-1][1].append(point)
    return tuple(Stretch(comparisons, tuple(group)) for comparisons, group in stretches)


def gaps(series: Series, window: Window) -> tuple[Gap, ...]:
    """Find the times in which nothing was written for much longer than usual, up to the window's end.

    Usual is the median of the times between two points. Where points were thinned out, their slots are added.
    """
    times = [point.at for point in series.points]
    between = [later - earlier for earlier, later in pairwise(times)]
    if not between:
        return ()
    usual = timedelta(seconds=median(each.total_seconds() for each in between))
    if series.records > len(times):
        usual += 2 * window.length / MOST_POINTS
    pairs = pairwise([*times, max(window.end, times[-1])])
    return tuple(Gap(earlier, later) for earlier, later in pairs if later - earlier > usual * PATIENCE)
