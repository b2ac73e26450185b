"""What a day of the strip says."""

from datetime import date

import pytest

from pipestate.status.model import DayState
from pipestate.status.records import make_day

TODAY = date(2026, 11, 20)


@pytest.mark.parametrize(
    ("day", "opened", "closed", "state"),
    [
        (18, 2, 0, DayState.OPEN),
        (18, 0, 1, DayState.CLOSED),
        (18, 1, 1, DayState.MIXED),
        (18, 0, 0, DayState.GAP),
        (10, 0, 0, DayState.NONE),
        (9, 0, 0, DayState.NONE),
        (20, 0, 0, DayState.NONE),
        (20, 1, 0, DayState.OPEN),
    ],
)
def test_a_day_without_a_record_is_a_gap_between_the_first_record_and_today(
    day: int, opened: int, closed: int, state: DayState
) -> None:
    found = make_day(date(2026, 11, day), opened, closed, date(2026, 11, 10), TODAY)
    assert (found.state, found.open, found.closed) == (state, opened, closed)


def test_where_nothing_was_ever_recorded_there_is_no_gap() -> None:
    assert make_day(date(2026, 11, 18), 0, 0, None, TODAY).state is DayState.NONE
