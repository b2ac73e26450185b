from datetime import date

import pytest

from pipestate.report.words import database_place, strip_words, timestamp
from pipestate.status.model import Day, DayState


def day(number: int, state: DayState) -> Day:
    return Day(date(2026, 11, number), int(state is DayState.OPEN), 0, state)


def test_a_strip_of_days_is_told_in_words() -> None:
    days = [day(1, DayState.OPEN), day(2, DayState.GAP), day(3, DayState.OPEN)]
    assert strip_words(days) == "The last 3 days: 2 days open, 1 day no record"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://app:***@db.example.com/civic", "db.example.com"),
        ("postgresql+psycopg://app@db:6432/civic?sslmode=require", "db:6432"),
        ("postgresql://app@/civic?host=a&host=b", "a, b"),
        ("postgresql://civic@/civic?host=%2Ftmp%2Fpipestate-pg%2Fdata", "this machine"),
        ("postgresql:///?service=production", "service production"),
        ("postgresql:///civic", "this machine"),
        ("sqlite:////srv/app/data/civic.db", "this machine"),
    ],
)
def test_a_database_is_placed_by_its_host(monkeypatch: pytest.MonkeyPatch, url: str, place: str) -> None:
    monkeypatch.delenv("PGHOST", raising=False)
    assert database_place(url) == place


def test_a_host_that_only_the_environment_names_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example.com")
    assert database_place("postgresql:///civic") == "db.example.com"


@pytest.mark.parametrize(
    "text", ["2026-11-04", "2026-13-04T07:30:00Z", "0001-01-01T00:00:00+14:00", "infinity"]
)
def test_what_is_no_timestamp_stays_text(text: str) -> None:
    assert timestamp(text) is None
