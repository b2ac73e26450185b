from datetime import UTC, datetime, timedelta

from pipestate.report.series import (
    MOST_POINTS,
    Point,
    Series,
    Window,
    extremes,
    gaps,
    thin,
)
from pipestate.runbook.criterion import Comparison

START = datetime(2026, 11, 1, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(days=30))
BELOW_5 = (Comparison("n", "<", 5),)


def after(*, days: float = 0, hours: float = 0) -> datetime:
    return START + timedelta(days=days, hours=hours)


def series(*points: Point, records: int | None = None) -> Series:
    return Series("book/one/c", "n", BELOW_5, points, records or len(points))


def daily(*days: float) -> Series:
    return series(*(Point(after(days=day), 1.0) for day in days))


def test_a_few_points_are_kept_as_they_are() -> None:
    points = [Point(after(hours=hour), hour) for hour in range(40)]
    assert thin(points, WINDOW, extremes, slots=50) == (40, points)


def test_many_points_are_thinned_to_a_limited_number_that_keeps_lowest_and_highest() -> None:
    points = [Point(after(hours=number / 100), number % 97) for number in range(60_000)]
    points[30_001] = Point(points[30_001].at, -3)
    points[30_003] = Point(points[30_003].at, 9999)
    total, kept = thin(points, WINDOW, extremes, slots=MOST_POINTS // 2)
    assert total == 60_000
    assert len(kept) <= MOST_POINTS
    assert {-3, 9999} < {point.value for point in kept}
    assert [point.at for point in kept] == sorted(point.at for point in kept)


def test_a_day_without_a_record_is_a_gap_and_a_late_one_is_not() -> None:
    late = daily(*range(10), 10.3, *range(11, 30))
    assert gaps(late, WINDOW) == ()
    (gap,) = gaps(daily(*range(10), *range(12, 30)), WINDOW)
    assert (gap.start, gap.end) == (after(days=9), after(days=12))


def test_a_gap_goes_on_up_to_now() -> None:
    (gap,) = gaps(daily(*range(20)), WINDOW)
    assert (gap.start, gap.end) == (after(days=19), WINDOW.end)


def test_thinned_points_have_no_gap_where_records_were_dense() -> None:
    quarters = (Point(after(hours=number / 4), number % 7) for number in range(30 * 96))
    total, kept = thin(quarters, WINDOW, extremes, slots=MOST_POINTS // 2)
    assert gaps(series(*kept, records=total), WINDOW) == ()


def test_one_point_has_no_gap() -> None:
    assert gaps(daily(3), WINDOW) == ()


def test_a_number_that_never_moved_and_never_failed_is_calm() -> None:
    assert daily(1, 2, 3).is_calm
    assert not series(Point(START, 1.0), Point(after(days=1), 2.0)).is_calm
    assert not series(Point(START, 7.0, passed=False), Point(after(days=1), 7.0, passed=False)).is_calm
    assert not series(Point(START, None, passed=False)).is_calm
