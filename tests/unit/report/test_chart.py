from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest

from pipestate.report.chart import BOTTOM, LEFT, RIGHT, TOP, draw
from pipestate.report.series import MOST_POINTS, Point, Series, Stretch, Window
from pipestate.runbook.require import Comparison, parse_requirement

START = datetime(2026, 11, 1, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(days=10))
CLASSES = ("line", "dots", "failures", "unknown", "limit", "wrong", "gap", "grid")


def on_day(day: float, value: float | None, *, held: bool = True) -> Point:
    return Point(START + timedelta(days=day), value, held)


def drawn(*points: Point, require: str = "n < 5", title: str = "book/one/c") -> ElementTree.Element:
    """The chart, read as strictly as XML is."""
    stretch = Stretch(parse_requirement(require).comparisons, points)
    svg = draw(Series(title, "n", (stretch,), len(points)), WINDOW, id="x")
    return ElementTree.fromstring(svg)


def parts(svg: ElementTree.Element, class_: str) -> list[ElementTree.Element]:
    return [each for each in svg.iter() if each.get("class") == class_]


def texts(svg: ElementTree.Element, class_: str) -> list[str | None]:
    return [each.text for each in parts(svg, class_)]


def test_the_limit_is_a_line_with_its_words_and_the_wrong_side_is_marked() -> None:
    svg = drawn(on_day(0, 1), on_day(5, 2), on_day(10, 10, held=False))
    (limit,) = parts(svg, "limit")
    middle = (TOP + BOTTOM) / 2
    assert limit.get("d") == f"M{LEFT} {middle:g}H{RIGHT}"
    assert texts(svg, "limit-words") == ["< 5"]
    (wrong,) = parts(svg, "wrong")
    assert (wrong.get("y"), wrong.get("height")) == (str(TOP), f"{middle - TOP:g}")


def test_each_comparison_of_a_column_has_its_line() -> None:
    svg = drawn(on_day(0, 1), require="n >= 0 and n <= 10")
    assert texts(svg, "limit-words") == [">= 0", "<= 10"]


def test_a_criterion_that_changed_is_drawn_from_the_day_on_which_it_did() -> None:
    old, new = (Comparison("n", "<", 5),), (Comparison("n", "<", 2),)
    stretches = (Stretch(old, (on_day(0, 1),)), Stretch(new, (on_day(5, 1), on_day(10, 1))))
    svg = ElementTree.fromstring(draw(Series("c", "n", stretches, 3), WINDOW, id="x"))
    ends = [str(each.get("d")) for each in parts(svg, "limit")]
    half = (LEFT + RIGHT) / 2
    assert ends[0].startswith(f"M{LEFT} ")
    assert ends[0].endswith(f"H{half:g}")
    assert ends[1].startswith(f"M{half:g} ")


def test_what_failed_is_marked_and_what_has_no_number_is_a_cross() -> None:
    svg = drawn(on_day(0, 1), on_day(1, 9, held=False), on_day(2, None, held=False), on_day(3, 1))
    assert str(parts(svg, "failures")[0].get("d")).count("h0") == 1
    assert str(parts(svg, "unknown")[0].get("d")).count("M") == 1
    line = str(parts(svg, "line")[0].get("d"))
    assert (line.count("M"), line.count("L")) == (2, 1), "the line ends where there is no number"


def test_a_gap_is_marked_and_the_line_does_not_cross_it() -> None:
    svg = drawn(*(on_day(day, 1) for day in (0, 1, 2, 6, 7, 8, 9, 10)))
    (gap,) = parts(svg, "gap")
    assert [each.text for each in gap] == ["No record from 2026-11-03 00:00 to 2026-11-07 00:00 UTC"]
    assert str(parts(svg, "line")[0].get("d")).count("M") == 2


def test_the_chart_is_told_in_words() -> None:
    svg = drawn(on_day(0, 1), on_day(1, 9.5, held=False))
    names = {each.tag.rpartition("}")[2]: each for each in svg}
    assert names["title"].text == "book/one/c: n"
    assert names["desc"].text == (
        "2 records; lowest 1, highest 9.5, latest 9.5; required < 5; 1 failed; 1 gap without a record."
    )
    assert svg.get("aria-labelledby") == names["title"].get("id")


def test_hostile_names_stay_text() -> None:
    svg = drawn(on_day(0, 1), title='"><script>alert(1)</script>\x1b[31m\u202e')
    assert {each.tag.rpartition("}")[2] for each in svg.iter()} <= {
        "svg",
        "title",
        "desc",
        "path",
        "text",
        "rect",
    }
    assert svg[0].text == '"><script>alert(1)</script>\\x1b[31m\\u202e: n'


@pytest.mark.parametrize("value", [0.0, -7.0, 1.7e308, -1.7e308, 5e-324, 1e-9])
def test_any_number_can_be_drawn(value: float) -> None:
    svg = drawn(on_day(1, value), on_day(2, value / 3), on_day(3, -value), require="n <= 12.5")
    assert parts(svg, "line")
    assert "nan" not in ElementTree.tostring(svg, encoding="unicode")


def test_nothing_but_crosses_can_be_drawn() -> None:
    svg = drawn(on_day(1, None, held=False), require="n = 0")
    assert parts(svg, "unknown")
    assert not parts(svg, "line")


def test_a_window_without_length_can_be_drawn() -> None:
    stretch = Stretch((), (Point(START, 1.0),))
    assert "dots" in draw(Series("c", "n", (stretch,), 1), Window(START, START), id="x")


def test_the_most_points_make_a_small_chart() -> None:
    points = [on_day(number / 50, number % 13, held=bool(number % 3)) for number in range(MOST_POINTS)]
    stretch = Stretch((), tuple(points))
    assert len(draw(Series("c", "n", (stretch,), MOST_POINTS), WINDOW, id="x")) < 14_000
