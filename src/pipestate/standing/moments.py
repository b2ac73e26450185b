"""Moments and lengths of time as people say them."""

from datetime import datetime, timedelta

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
HALF_A_YEAR = timedelta(days=182)


def lasting(length: timedelta) -> str:
    """
    >>> lasting(timedelta(seconds=40)), lasting(timedelta(minutes=5)), lasting(timedelta(hours=26, minutes=40))
    ('40 seconds', '5 minutes', '26 hours')
    >>> lasting(timedelta(days=3, hours=5)), lasting(timedelta(days=40)), lasting(timedelta(minutes=1))
    ('3.2 days', '40 days', '1 minute')
    """
    if length >= 10 * DAY:
        return f"{length // DAY} days"
    if length >= 2 * DAY:
        return f"{_tenths(length / DAY)} days"
    for unit, size in (("hour", HOUR), ("minute", MINUTE)):
        if length >= size:
            return _many(length // size, unit)
    return _many(max(0, int(length.total_seconds())), "second")


def on(moment: datetime, now: datetime) -> str:
    """Say a moment, of the same width each time; with its year where that is not clear.

    >>> now = datetime(2026, 1, 3)
    >>> on(datetime(2025, 12, 9, 6, 30), now), on(datetime(2025, 1, 2, 6, 30), now)
    ('Dec 09 06:30', '2025 Jan 02 06:30')
    """
    return f"{moment:%b %d %H:%M}" if abs(moment - now) < HALF_A_YEAR else f"{moment:%Y %b %d %H:%M}"


def days(number: float) -> str:
    """Say a number of days, rounded down: what is not reached must not look reached.

    >>> days(6.99), days(7.0), days(3.25), days(12.4)
    ('6.9', '7', '3.2', '12.4')
    """
    return _tenths(number)


def _tenths(number: float) -> str:
    cut = int(number * 10 + 1e-6) / 10
    return f"{cut:.0f}" if cut == int(cut) else f"{cut:.1f}"


def _many(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"
