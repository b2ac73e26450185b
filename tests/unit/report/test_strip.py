from datetime import date
from xml.etree import ElementTree

import pytest

from pipestate.report.strip import soak_bar, strip
from pipestate.standing.model import Day, DayState, Soak


def day(number: int, state: DayState) -> Day:
    return Day(date(2026, 11, number), int(state is DayState.OPEN), 0, state)


def test_a_strip_has_a_square_a_day_and_says_in_words_what_it_shows() -> None:
    svg = ElementTree.fromstring(strip([day(1, DayState.OPEN), day(2, DayState.GAP), day(3, DayState.OPEN)]))
    squares = [each for each in svg if "day " in (each.get("class") or "")]
    assert [square.get("class") for square in squares] == ["day open", "day gap", "day open"]
    assert squares[1][0].text == "Nov 2: no record, 0 records"
    assert svg.get("aria-label") == "The last 3 days: 2 days open, 1 day no record"


@pytest.mark.parametrize(
    ("days", "passed", "width"),
    [(3.5, False, "50"), (None, False, "0"), (90.0, True, "100")],
)
def test_a_bar_is_as_long_as_the_days_that_were_held(days: float | None, passed: bool, width: str) -> None:
    since = None if days is None else object()
    soak = Soak("soak", None, days, 7.0, since, None, passed)  # type: ignore[arg-type]
    svg = ElementTree.fromstring(soak_bar(soak))
    assert svg[1].get("width") == width
