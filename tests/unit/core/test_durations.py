from datetime import UTC, datetime, timedelta

import pytest

from pipestate.core.durations import parse_age, parse_since
from pipestate.core.errors import ConfigError

NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "age"),
    [("1y", timedelta(days=365)), ("6w", timedelta(weeks=6)), (" 90d ", timedelta(days=90))],
)
def test_ages(text: str, age: timedelta) -> None:
    assert parse_age(text, units="ywd") == age


@pytest.mark.parametrize("text", ["", "1", "y", "-1y", "1.5d", "1m", "12h", "9999999d", "1y1d", "٣d"])
def test_other_ages_are_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--older-than .*: write 1y, 6w or 30d"):
        parse_age(text, units="ywd")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("7d", NOW - timedelta(days=7)),
        ("30m", NOW - timedelta(minutes=30)),
        ("2026-01-19", datetime(2026, 1, 19, tzinfo=UTC)),
        ("2026-01-19T10:30", datetime(2026, 1, 19, 10, 30, tzinfo=UTC)),
        ("2026-01-19T10:30:00+02:00", datetime(2026, 1, 19, 8, 30, tzinfo=UTC)),
    ],
)
def test_moments(text: str, moment: datetime) -> None:
    assert parse_since(text, now=NOW) == moment


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "999999y", "0001-01-01T00:00+05:00"])
def test_other_moments_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write an age such as 7d, or a date"):
        parse_since(text, now=NOW)
