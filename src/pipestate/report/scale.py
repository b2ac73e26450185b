"""Axes: which values get a tick, and how numbers and moments are written beside it. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_STEPS = [
    *(timedelta(hours=hours) for hours in (1, 3, 6, 12)),
    *(timedelta(days=days) for days in (1, 2, 5, 7, 14, 30, 61, 122, 365)),
]
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
FAR = 1e300
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Scale:
    """A range of values, and where they lie between two ends of an axis."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return where a value lies; what is outside of the range lies on its edge.

        >>> Scale(0, 10, 100, 0).at(2.5)
        75.0
        """
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def nice_range(values: Sequence[float]) -> tuple[float, float]:
    """Return round ends around the values; zero is one of them where the values are not far from it.

    >>> nice_range([2, 9]), nice_range([97.2, 99.9]), nice_range([0, 0])
    ((0.0, 10.0), (97.0, 100.0), (0.0, 1.0))
    """
    low, high = _drawable(min(values)), _drawable(max(values))
    if low >= 0 and low <= high / 2:
        low = 0.0
    if high <= 0 and high >= low / 2:
        high = 0.0
    if low == high:
        low, high = (0.0, 1.0) if low == 0 else (low - abs(low) / 10, high + abs(high) / 10)
    step = _step(high - low, 3)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _drawable(value: float) -> float:
    """Return the nearest number whose distance from others is still one."""
    return 0.0 if abs(value) < 1 / FAR else max(-FAR, min(FAR, value))


def ticks(low: float, high: float, most: int = 3) -> list[float]:
    """Return at most so many round values between two ends.

    >>> ticks(0, 10), ticks(97, 100)
    ([0.0, 5.0, 10.0], [98.0, 100.0])
    """
    step = _step(high - low, most - 1)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _step(length: float, parts: int) -> float:
    """Return the smallest of 1, 2, 5, 10, … that divides a length into at most so many parts."""
    if length <= 0 or not math.isfinite(length):
        return 1.0
    power = 10.0 ** math.floor(math.log10(length / parts))
    return next(
        (power * factor for factor in (1, 2, 5, 10) if length / (power * factor) <= parts + 1e-9), power * 10
    )


def time_ticks(start: datetime, end: datetime, most: int = 5) -> list[tuple[datetime, str]]:
    """Return at most so many round moments between two, in UTC, and how each is written.

    >>> [label for _, label in time_ticks(_EPOCH, _EPOCH + timedelta(days=8))]
    ['Jan 1', 'Jan 3', 'Jan 5', 'Jan 7', 'Jan 9']
    """
    length = end - start
    step = next((step for step in _STEPS if length / step <= most - 0.5), _STEPS[-1])
    first = -((_EPOCH - start) // step) if start > _EPOCH else 0
    moments = [_EPOCH + number * step for number in range(first, (end - _EPOCH) // step + 1)]
    return [(moment, _moment(moment, step)) for moment in moments[:most]]


def _moment(moment: datetime, step: timedelta) -> str:
    if step < timedelta(days=1):
        return f"{moment:%H:%M}" if moment.hour else f"{moment:%b} {moment.day}"
    return f"{moment:%b} {moment.day}" if step < timedelta(days=365) else f"{moment:%Y}"


def tick(value: float) -> str:
    """Write a number beside an axis, where there is room for six characters.

    >>> [tick(value) for value in (2000, 600000, 0.25, -25000)]
    ['2,000', '600k', '0.25', '-25k']
    """
    return f"{value / 1000:.3g}k" if 1e4 <= abs(value) < 1e6 else number(value)


def number(value: float) -> str:
    """Write a number as short as it can be read.

    >>> [number(value) for value in (2695, 0.25, 1 / 3, 12_500_000, 1e30, 0.00001)]
    ['2,695', '0.25', '0.333', '12.5M', '1e+30', '1e-05']
    """
    if abs(value) >= 1e15 or 0 < abs(value) < 1e-3:
        return f"{value:.3g}"
    for unit, letter in _UNITS:
        if abs(value) >= unit:
            return f"{value / unit:.3g}{letter}"
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}"
