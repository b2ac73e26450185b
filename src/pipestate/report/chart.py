"""A series as a chart: its line, the limits of its criterion, what failed, and where nothing was written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup

from pipestate.plural import many
from pipestate.report.scale import Scale, nice_range, number, tick, ticks, time_ticks
from pipestate.report.series import Gap, Point, Series, Window, gaps
from pipestate.report.svg import at, element, path
from pipestate.runbook.require import Comparison

WIDTH, HEIGHT = 360, 150
LEFT, RIGHT, TOP, BOTTOM = 46, 352, 14, 126
# Up to so many points each has a dot of its own.
DOTTED = 62
LABEL_HEIGHT = 12


@dataclass(frozen=True, slots=True)
class Frame:
    """Where moments and values lie in the picture."""

    window: Window
    values: Scale

    def x(self, moment: datetime) -> float:
        share = (moment - self.window.start) / self.window.length if self.window.length else 1.0
        return LEFT + min(1.0, max(0.0, share)) * (RIGHT - LEFT)

    def y(self, value: float) -> float:
        return self.values.at(value)

    def place(self, point: Point) -> str:
        """Write where a point lies; without a value it lies on the ground."""
        return f"{at(self.x(point.at))} {at(BOTTOM if point.value is None else self.y(point.value))}"


def draw(series: Series, window: Window, *, id: str) -> Markup:
    """Return the chart as an element of a page; the ids inside begin with `id`."""
    frame = _frame(series, window)
    missing = gaps(series, window)
    return element(
        "svg",
        element("title", f"{series.title}: {series.column}", id=f"{id}-title"),
        element("desc", describe(series, missing), id=f"{id}-desc"),
        *(_gap(gap, frame) for gap in missing),
        *_axes(frame),
        *_limits(series, frame),
        path(_line(series.points, missing, frame), "line"),
        path(_dots(series.points, frame), "dots"),
        path(
            _failures(series.points, frame), "failures" if len(series.points) <= DOTTED else "failures many"
        ),
        path(_unknown(series.points, frame), "unknown"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="chart",
        aria_labelledby=f"{id}-title",
        aria_describedby=f"{id}-desc",
    )


def describe(series: Series, missing: Sequence[Gap]) -> str:
    """Say in words what the chart shows."""
    values = series.values
    said = [
        f"{many(series.records, 'record')}",
        f"lowest {number(min(values))}, highest {number(max(values))}, latest {number(values[-1])}"
        if values
        else "no number",
        f"required {series.required}" if series.required else "no criterion",
        f"{series.failures} failed" if series.failures else "none failed",
    ]
    if missing:
        said.append(f"{many(len(missing), 'gap')} without a record")
    return "; ".join(said) + "."


def _frame(series: Series, window: Window) -> Frame:
    limits = [float(each.value) for stretch in series.stretches for each in stretch.comparisons]
    low, high = nice_range([*series.values, *limits] or [0.0])
    return Frame(window, Scale(low, high, BOTTOM, TOP))


def _axes(frame: Frame) -> Iterator[Markup]:
    for value in ticks(frame.values.low, frame.values.high):
        y = frame.y(value)
        yield element("path", d=f"M{LEFT} {at(y)}H{RIGHT}", class_="grid")
        yield element("text", tick(value), x=LEFT - 6, y=y + 4, text_anchor="end", class_="tick")
    for moment, label in time_ticks(frame.window.start, frame.window.end):
        x = frame.x(moment)
        anchor = "start" if x < LEFT + 15 else "end" if x > RIGHT - 15 else "middle"
        yield element("path", d=f"M{at(x)} {BOTTOM}v4", class_="grid")
        yield element("text", label, x=x, y=BOTTOM + 17, text_anchor=anchor, class_="tick")


def _gap(gap: Gap, frame: Frame) -> Markup:
    start, end = frame.x(gap.start), frame.x(gap.end)
    title = element("title", f"No record from {gap.start:%Y-%m-%d %H:%M} to {gap.end:%Y-%m-%d %H:%M} UTC")
    return element(
        "rect", title, x=start, y=TOP, width=max(1.0, end - start), height=BOTTOM - TOP, class_="gap"
    )


def _limits(series: Series, frame: Frame) -> Iterator[Markup]:
    """Draw each criterion from its first point up to the first point of the next one."""
    starts = [stretch.points[0].at for stretch in series.stretches]
    ends = [*starts[1:], frame.window.end]
    for number_, (stretch, start, end) in enumerate(zip(series.stretches, starts, ends, strict=True)):
        left = LEFT if number_ == 0 else frame.x(start)
        for comparison in stretch.comparisons:
            yield from _limit(comparison, left, frame.x(end), frame)


def _limit(comparison: Comparison, left: float, right: float, frame: Frame) -> Iterator[Markup]:
    """Draw the line of a comparison, its words, and lightly the side on which a value fails."""
    y = frame.y(float(comparison.value))
    above = comparison.op in ("<", "<=")
    if above or comparison.op in (">", ">="):
        top, bottom = (TOP, y) if above else (y, BOTTOM)
        width, height = max(0.0, right - left), max(0.0, bottom - top)
        yield element("rect", x=left, y=float(top), width=width, height=height, class_="wrong")
    yield element("path", d=f"M{at(left)} {at(y)}H{at(right)}", class_="limit")
    words_y = y - 4 if y - LABEL_HEIGHT > 0 else y + LABEL_HEIGHT
    yield element(
        "text", comparison.required, x=right - 2, y=words_y, text_anchor="end", class_="limit-words"
    )


def _line(points: Sequence[Point], missing: Sequence[Gap], frame: Frame) -> Iterator[str]:
    """Draw from point to point; the line ends at a gap and where there is no value."""
    broken = {gap.end for gap in missing}
    drawing = False
    for point in points:
        if point.value is None:
            drawing = False
            continue
        yield f"{'L' if drawing and point.at not in broken else 'M'}{frame.place(point)}"
        drawing = True


def _dots(points: Sequence[Point], frame: Frame) -> Iterator[str]:
    """Draw a dot for each point, where they are few enough; alone, a point has no line."""
    if len(points) <= DOTTED:
        yield from (f"M{frame.place(point)}h0" for point in points if point.value is not None)


def _failures(points: Sequence[Point], frame: Frame) -> Iterator[str]:
    return (f"M{frame.place(point)}h0" for point in points if point.value is not None and not point.held)


def _unknown(points: Sequence[Point], frame: Frame) -> Iterator[str]:
    """Draw a cross on the ground where a record has no number."""
    return (f"M{frame.place(point)}m-3 -3l6 6m0-6l-6 6" for point in points if point.value is None)
