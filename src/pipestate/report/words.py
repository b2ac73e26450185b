"""Moments and lengths of time in the words of a page; times are in UTC."""

from datetime import datetime, timedelta

from markupsafe import Markup

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


def moment(at: datetime, now: datetime) -> Markup:
    """Write a moment as an element that programs can read, too; the year only where it is another one.

    >>> at = datetime(2026, 11, 4, 6, 30)
    >>> moment(at, at), moment(at, datetime(2027, 1, 1))
    (Markup('<time datetime="2026-11-04T06:30:00Z">Nov 4, 06:30</time>'), \
Markup('<time datetime="2026-11-04T06:30:00Z">Nov 4 2026, 06:30</time>'))
    """
    year = f" {at.year}" if at.year != now.year else ""
    return Markup('<time datetime="{}">{}</time>').format(
        f"{at:%Y-%m-%dT%H:%M:%S}Z", f"{at:%b} {at.day}{year}, {at:%H:%M}"
    )


def lasting(length: timedelta) -> str:
    """Write a length of time in its two largest units.

    >>> lasting(timedelta(days=3, hours=4.5)), lasting(timedelta(minutes=90)), lasting(timedelta(seconds=40))
    ('3 d 4 h', '1 h 30 min', '40 s')
    """
    rest = max(0, int(length.total_seconds()))
    parts: list[str] = []
    for seconds, unit in _UNITS:
        count, rest = divmod(rest, seconds)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part) or f"{rest} s"
