"""Small drawings of a gate: its last days as a row of squares, and how much of a soak is done."""

from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from pipestate.plural import many
from pipestate.report.svg import element
from pipestate.standing.model import Day, DayState, Soak

SIDE, STEP, HEIGHT = 10, 12, 12
BAR = 100
_SAID = {
    DayState.OPEN: "open",
    DayState.CLOSED: "closed",
    DayState.MIXED: "open and closed",
    DayState.GAP: "no record",
    DayState.NONE: "nothing yet",
}


def strip(days: Sequence[Day]) -> Markup:
    """Draw a square a day, the last one today; a gap is an empty one with a line through it."""
    return element(
        "svg",
        *(_square(number, day) for number, day in enumerate(days)),
        viewBox=f"0 0 {len(days) * STEP - 2} {HEIGHT}",
        role="img",
        class_="strip",
        width=len(days) * STEP - 2,
        height=HEIGHT,
        aria_label=describe(days),
    )


def describe(days: Sequence[Day]) -> str:
    """Say in words what a strip shows."""
    counts = Counter(day.state for day in days)
    said = [f"{many(counts[state], 'day')} {_SAID[state]}" for state in DayState if counts[state]]
    return f"The last {many(len(days), 'day')}: {', '.join(said)}"


def _square(number: int, day: Day) -> Markup:
    records = many(day.open + day.closed, "record")
    title = element("title", f"{day.date:%b} {day.date.day}: {_SAID[day.state]}, {records}")
    x = number * STEP
    square = element("rect", title, x=x, y=1, width=SIDE, height=SIDE, rx=2, class_=f"day {day.state.value}")
    if day.state is DayState.GAP:
        square += element("path", d=f"M{x + 2} {HEIGHT - 3}l6-6", class_="day-gap")
    if day.state is DayState.MIXED:
        square += element("rect", x=x, y=6, width=SIDE, height=SIDE // 2, rx=2, class_="day closed")
    return square


def soak_bar(soak: Soak) -> Markup:
    """Draw how many of the days that are required have been held."""
    share = min(1.0, (soak.days or 0) / soak.required) if soak.counts and soak.required > 0 else 0.0
    return element(
        "svg",
        element("rect", width=BAR, height=6, class_="bar-all"),
        element("rect", width=share * BAR, height=6, class_="bar-done" if soak.passed else "bar-some"),
        viewBox=f"0 0 {BAR} 6",
        preserveAspectRatio="none",
        class_="bar",
        aria_hidden="true",
    )
