from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from pipestate.report.chart import HIGH, TOP, WIDE, Drawing, Limit, draw, time_ticks
from pipestate.report.page import Chart, make_environment
from pipestate.report.series import MOST_POINTS, Point, Series, Window
from pipestate.runbook.criterion import parse_requirement

START = datetime(2026, 11, 1, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(days=10))


def on_day(day: float, value: float | None, *, passed: bool = True) -> Point:
    return Point(START + timedelta(days=day), value, passed)


def series(*points: Point, require: str = "n < 5", title: str = "book/one/c") -> Series:
    return Series(title, "n", parse_requirement(require).comparisons, points, len(points))


def drawn(*points: Point, require: str = "n < 5") -> Drawing:
    return draw(series(*points, require=require), WINDOW)


def svg(of: Series) -> ElementTree.Element:
    """The chart as the page has it, read as strictly as XML is."""
    chart = Chart("x", of, draw(of, WINDOW))
    written = str(make_environment().get_template("charts.html").module.drawing(chart))  # type: ignore[attr-defined]
    return ElementTree.fromstring(written[: written.index("<details")])


def test_the_limit_is_a_line_with_its_words_and_the_wrong_side_is_marked() -> None:
    middle = (TOP + HIGH) / 2
    (limit,) = drawn(on_day(0, 1), on_day(5, 2), on_day(10, 10, passed=False)).limits
    assert limit == Limit("< 5", middle - 4, middle, TOP, middle - TOP)


@pytest.mark.parametrize(
    ("require", "height"),
    [("n >= 5", HIGH / 2 - TOP / 2), ("n = 5", 0), ("n != 5", 0), ("n <= 5", HIGH / 2 - TOP / 2)],
)
def test_only_the_side_on_which_a_value_fails_is_marked(require: str, height: float) -> None:
    (limit,) = drawn(on_day(0, 1), on_day(10, 10), require=require).limits
    assert limit.wrong_height == height


def test_each_comparison_of_a_column_has_its_line() -> None:
    limits = drawn(on_day(0, 1), require="n >= 0 and n <= 10").limits
    assert [limit.words for limit in limits] == [">= 0", "<= 10"]


@pytest.mark.parametrize(("days", "labels"), [(1, 1), (3, 3), (10, 4), (30, 4), (70, 4), (3660, 4)])
def test_a_window_of_any_length_has_a_few_dates(days: int, labels: int) -> None:
    start = START + timedelta(hours=5)
    found = time_ticks(Window(start, start + timedelta(days=days)))
    assert len(found) == labels
    assert len({label for _, label in found}) == labels


def test_what_failed_is_marked_and_so_is_what_has_no_number() -> None:
    found = drawn(on_day(0, 1), on_day(1, 9, passed=False), on_day(2, None, passed=False), on_day(3, 1))
    assert (found.dots.count("h0"), found.failures.count("h0")) == (3, 1)
    assert found.unknown == f"M{WIDE * 2 // 10} {HIGH}h0"
    assert (found.line.count("M"), found.line.count("L")) == (2, 1), "the line ends where there is no number"


def test_a_gap_is_marked_and_the_line_does_not_cross_it() -> None:
    points = [on_day(day, 1) for day in (0, 1, 2, 6, 7, 8, 9, 10)]
    found = drawn(*points)
    assert [(x, width) for x, width, _ in found.gaps] == [(WIDE * 2 // 10, WIDE * 4 // 10)]
    assert found.line.count("M") == 2
    titles = [each.text for each in svg(series(*points)).iter() if each.tag == "title"]
    assert titles == ["No record from 3 Nov 2026, 00:00 to 7 Nov 2026, 00:00 UTC"]


def test_the_chart_is_described_in_words() -> None:
    assert drawn(on_day(0, 1), on_day(1, 9.5, passed=False)).words == (
        "book/one/c, n: 2 records; lowest 1, highest 9.5, latest 9.5; required < 5; 1 failed; 1 gap without a record."
    )


def test_hostile_names_stay_text() -> None:
    found = svg(series(on_day(0, 1), title='"><script>alert(1)</script>\x1b[31m\u202e'))
    assert {each.tag for each in found.iter()} <= {"svg", "path", "text", "rect"}
    assert str(found.get("aria-label")).startswith('"><script>alert(1)</script>\\x1b[31m\\u202e, n: ')


@pytest.mark.parametrize("value", [0.0, -7.0, 1.7e308, -1.7e308, 5e-324, 1e-9])
def test_any_number_can_be_drawn(value: float) -> None:
    of = series(on_day(1, value), on_day(2, value / 3), on_day(3, -value), require="n <= 12.5")
    text = ElementTree.tostring(svg(of), encoding="unicode")
    assert 'class="line"' in text
    assert "nan" not in text


def test_nothing_but_unknown_values_can_be_drawn() -> None:
    found = drawn(on_day(1, None, passed=False), require="n = 0")
    assert found.unknown
    assert not found.line


def test_a_window_without_length_can_be_drawn() -> None:
    of = Series("c", "n", (), (Point(START, 1.0),), 1)
    assert draw(of, Window(START, START)).dots.startswith(f"M{WIDE} ")


def test_the_most_points_make_a_small_chart_whose_line_is_whole() -> None:
    points = tuple(on_day(number / 50, number % 13, passed=bool(number % 3)) for number in range(MOST_POINTS))
    of = Series("c", "n", (), points, MOST_POINTS)
    text = ElementTree.tostring(svg(of), encoding="unicode")
    assert len(text) < 14_000
    assert draw(of, WINDOW).line in text
