"""Charts: axis ticks and their labels, tables of the same numbers, and drawings. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from pipestate.core.text import many
from pipestate.report.series import Gap, Point, Series, Window, gaps

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
FAR = 1e300
DAY = timedelta(days=1)
# Coordinates are those of a plot that is WIDE by HIGH. A browser stretches it to the available width.
WIDE, HIGH = 1000, 120
TOP = 8
# A series of up to this many points has a dot for each.
DOTTED = 62
LABEL_HEIGHT = 13


def nice_range(values: Sequence[float]) -> tuple[float, float]:
    """Return round ends around the values; zero is one end if the values are near it.

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
    """Clamp a number to the range in which differences between numbers stay finite."""
    return 0.0 if abs(value) < 1 / FAR else max(-FAR, min(FAR, value))


def _step(length: float, parts: int) -> float:
    """Return the smallest of 1, 2, 5, 10, … that divides a length into at most so many parts."""
    if length <= 0 or not math.isfinite(length):
        return 1.0
    power = 10.0 ** math.floor(math.log10(length / parts))
    return next(
        (power * factor for factor in (1, 2, 5, 10) if length / (power * factor) <= parts + 1e-9), power * 10
    )


def time_ticks(window: Window) -> list[tuple[datetime, str]]:
    """Return at most five midnights of the window, in UTC, with their labels.

    >>> start = datetime(2026, 1, 1, 6)
    >>> [label for _, label in time_ticks(Window(start, start + 8 * DAY))]
    ['2 Jan', '5 Jan', '8 Jan']
    """
    step = window.length // (4 * DAY) + 1
    first = window.start.replace(hour=0, minute=0, second=0, microsecond=0) + DAY
    moments = [first + number * step * DAY for number in range(5)]
    form = "%b" if step < 60 else "%b %Y"
    return [(at, f"{at.day} {at:{form}}") for at in moments if at <= window.end]


def tick(value: float) -> str:
    """Write a number for an axis label, in at most six characters.

    >>> [tick(value) for value in (2000, 600000, 0.25, -25000)]
    ['2,000', '600k', '0.25', '-25k']
    """
    return f"{value / 1000:.3g}k" if 1e4 <= abs(value) < 1e6 else number(value)


def number(value: float) -> str:
    """Write a number in its shortest readable form.

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


@dataclass(frozen=True, slots=True)
class Limit:
    """A comparison of a criterion: its line, its text, and the side on which a value fails."""

    words: str
    words_y: float
    y: float
    wrong_top: float
    wrong_height: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart, ready for its template; the last four are SVG paths, which templates must not shorten."""

    words: str
    values: list[tuple[float, str]]
    times: list[tuple[int, str]]
    gaps: list[tuple[int, int, Gap]]
    limits: list[Limit]
    line: Markup
    dots: Markup
    failures: Markup
    unknown: Markup


@dataclass(frozen=True, slots=True)
class _Frame:
    """Positions of moments and values in the plot."""

    window: Window
    low: float
    high: float

    def x(self, moment: datetime) -> int:
        share = (moment - self.window.start) / self.window.length if self.window.length else 1.0
        return round(min(1.0, max(0.0, share)) * WIDE)

    def y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(HIGH - min(1.0, max(0.0, share)) * (HIGH - TOP), 1)

    def place(self, point: Point) -> str:
        """Write the position of a point; without a value it lies on the baseline."""
        return f"{self.x(point.at)} {HIGH if point.value is None else self.y(point.value):g}"


def draw(series: Series, window: Window) -> Drawing:
    limits = [float(each.value) for each in series.comparisons]
    frame = _Frame(window, *nice_range([*series.values, *limits] or [0.0]))
    missing = gaps(series, window)
    known = [point for point in series.points if point.value is not None]
    return Drawing(
        f"{series.title}, {series.column}: {describe(series, missing)}",
        [(frame.y(value), tick(value)) for value in (frame.low, (frame.low + frame.high) / 2, frame.high)],
        [(frame.x(at), label) for at, label in time_ticks(window)],
        [(frame.x(gap.start), max(2, frame.x(gap.end) - frame.x(gap.start)), gap) for gap in missing],
        list(_limits(series, frame)),
        Markup("").join(_line(series.points, missing, frame)),
        _marks(known, frame) if len(series.points) <= DOTTED else Markup(""),
        _marks([point for point in known if not point.passed], frame),
        _marks([point for point in series.points if point.value is None], frame),
    )


def describe(series: Series, missing: Sequence[Gap]) -> str:
    """Describe the chart in words."""
    values = series.values
    said = [
        many(series.records, "record"),
        f"lowest {number(min(values))}, highest {number(max(values))}, latest {number(values[-1])}"
        if values
        else "no number",
        f"required {series.required}" if series.required else "no criterion",
        f"{series.failures} failed" if series.failures else "none failed",
    ]
    if missing:
        said.append(f"{many(len(missing), 'gap')} without a record")
    return "; ".join(said) + "."


def _limits(series: Series, frame: _Frame) -> Iterator[Limit]:
    """Draw each comparison of the criterion, and mark its wrong side."""
    for comparison in series.comparisons:
        y = frame.y(float(comparison.value))
        wrong = (TOP, y - TOP) if comparison.op in ("<", "<=") else (y, 0.0)
        if comparison.op in (">", ">="):
            wrong = (y, HIGH - y)
        words_y = y - 4 if y > LABEL_HEIGHT else y + LABEL_HEIGHT
        yield Limit(comparison.required, words_y, y, *wrong)


def _line(points: Sequence[Point], missing: Sequence[Gap], frame: _Frame) -> Iterator[str]:
    """Draw from point to point; break the line at a gap and at a point without a value."""
    broken = {gap.end for gap in missing}
    drawing = False
    for point in points:
        if point.value is None:
            drawing = False
            continue
        yield f"{'L' if drawing and point.at not in broken else 'M'}{frame.place(point)}"
        drawing = True


def _marks(points: Sequence[Point], frame: _Frame) -> Markup:
    """Draw lines of zero length: the caps of their ends are dots."""
    return Markup("").join(f"M{frame.place(point)}h0" for point in points)
