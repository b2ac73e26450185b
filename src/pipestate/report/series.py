"""Time series of numbers with the limits of their criteria, as frozen values for charts. Pure."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from statistics import median
from typing import Any

from pipestate.runbook.criterion import Comparison, RequirementError, parse_requirement
from pipestate.runbook.model import Check
from pipestate.verify.checks import is_met
from pipestate.verify.report import Json

Limits = Mapping[str, tuple[Comparison, ...]]

_OBSERVED = re.compile(r"\bname\s*=\s*'((?:[^']|'')+)'", re.IGNORECASE)
_VALUE = re.compile(r"\bvalue(?:\s+AS\s+\"?(?P<alias>[^\W\d][\w$]*))?", re.IGNORECASE)
MOST_POINTS = 500
# A pause counts as a gap if it exceeds the usual interval by this factor.
PATIENCE = 1.5


@lru_cache(maxsize=4096)
def limits(required: str) -> Limits:
    """Return the comparisons with numbers, by column; an unreadable criterion yields none.

    >>> [(name, [each.required for each in those]) for name, those in limits("n >= 0 and n < 5 and ok = true").items()]
    [('n', ['>= 0', '< 5'])]
    """
    try:
        comparisons = parse_requirement(required).comparisons
    except RequirementError:
        return {}
    found: dict[str, list[Comparison]] = {}
    for each in comparisons:
        if isinstance(each.value, int | Decimal) and not isinstance(each.value, bool):
            found.setdefault(each.column, []).append(each)
    return {column: tuple(those) for column, those in found.items()}


def observed_value(observed: Mapping[str, Json], column: str) -> Json:
    """Return the observed value of a column: by exact name, else ignoring case, as a verdict does.

    >>> observed_value({"Stuck": 3}, "stuck")
    3
    """
    if column in observed:
        return observed[column]
    alike = [value for name, value in observed.items() if name.lower() == column.lower()]
    return alike[0] if len(alike) == 1 else None


def as_number(value: Json) -> float | None:
    """Return a finite number that can be drawn, or None.

    >>> as_number(12), as_number(True), as_number("NaN"), as_number(10**400)
    (12.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def satisfied(comparisons: tuple[Comparison, ...], value: Json) -> bool:
    """Tell whether a value satisfies all of these comparisons."""
    return all(is_met(comparison, value) for comparison in comparisons)


def observation_limits(check: Check) -> tuple[str, tuple[Comparison, ...]] | None:
    """Return the observation that a check reads, with its limits; None if the query is not a simple one.

    A simple query reads `latest_observation` with one quoted name, and the criterion compares its `value`.
    """
    names = {name.replace("''", "'") for name in _OBSERVED.findall(check.sql)}
    value = _VALUE.search(check.sql)
    if "latest_observation" not in check.sql or len(names) != 1 or value is None:
        return None
    column = value["alias"] or "value"
    return names.pop(), limits(check.require.text).get(column, ())


@dataclass(frozen=True, slots=True)
class Window:
    """The time window of all charts of a report."""

    start: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    def slot(self, at: datetime, slots: int) -> int:
        """Return the index of a moment among so many equal parts of the window."""
        return int((at - self.start) / self.length * slots) if self.length else 0


@dataclass(frozen=True, slots=True)
class Point:
    """Observation at one moment; the value is None if it was not a number. `passed` is the criterion's result."""

    at: datetime
    value: float | None
    passed: bool = True


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without any record."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Series:
    """One number of one check, or one observation. `records` also counts thinned-out records.

    `comparisons` are those of the newest record; `passed` of a point is the result at its time.
    """

    title: str
    column: str
    comparisons: tuple[Comparison, ...]
    points: tuple[Point, ...]
    records: int

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(point.value for point in self.points if point.value is not None)

    @property
    def failures(self) -> int:
        """The number of points that failed the criterion."""
        return sum(not point.passed for point in self.points)

    @property
    def required(self) -> str:
        """The criterion of the newest point, in runbook syntax."""
        return " and ".join(comparison.required for comparison in self.comparisons)

    @property
    def is_calm(self) -> bool:
        """Tell whether the number was constant and always passed: one value shows it."""
        return not self.failures and len(set(self.values)) == 1


def thin(
    items: Iterable[Any], window: Window, choose: Callable[[Sequence[Any]], Iterable[Any]], *, slots: int
) -> tuple[int, list[Any]]:
    """Count the items, and keep those that `choose` takes of each slot of the window; keep all if they are few.

    The items have a time, `at`, and arrive in its order. Memory use is independent of their number.
    """

    def chosen() -> list[Any]:
        together: dict[int, list[Any]] = {}
        for item in kept:
            together.setdefault(window.slot(item.at, slots), []).append(item)
        return [
            each for group in together.values() for each in sorted(choose(group), key=lambda each: each.at)
        ]

    total, kept = 0, list[Any]()
    for item in items:
        total += 1
        kept.append(item)
        if len(kept) > 8 * slots:
            kept = chosen()
    return total, kept if total <= slots else chosen()


def extremes(points: Sequence[Point]) -> Iterable[Point]:
    """Choose the lowest and the highest of the points: the line keeps its shape."""
    known = sorted(
        (point for point in points if point.value is not None), key=lambda point: point.value or 0.0
    )
    return known if len(known) < 2 else (known[0], known[-1])


def gaps(series: Series, window: Window) -> tuple[Gap, ...]:
    """Find periods without records that are much longer than usual, up to the window's end.

    The usual interval is the median between two points. If points were thinned out, two slot lengths are added.
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
