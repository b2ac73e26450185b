from datetime import date

import pytest

from pipestate.report.words import strip_words, timestamp
from pipestate.status.model import Day, DayState


def day(number: int, state: DayState) -> Day:
    return Day(date(2026, 11, number), int(state is DayState.OPEN), 0, state)


def test_a_strip_of_days_is_described_in_words() -> None:
    days = [day(1, DayState.OPEN), day(2, DayState.GAP), day(3, DayState.OPEN)]
    assert strip_words(days) == "The last 3 days: 2 days open, 1 day no record"


@pytest.mark.parametrize(
    "text", ["2026-11-04", "2026-13-04T07:30:00Z", "0001-01-01T00:00:00+14:00", "infinity"]
)
def test_what_is_no_timestamp_stays_text(text: str) -> None:
    assert timestamp(text) is None
