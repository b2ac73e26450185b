"""Moments in the words of a page; times are in UTC."""

from datetime import datetime

from markupsafe import Markup

from pipestate.standing.moments import on


def moment(at: datetime, now: datetime) -> Markup:
    """Write a moment as an element that programs can read, too.

    >>> moment(datetime(2026, 11, 4, 6, 30), datetime(2026, 11, 5))
    Markup('<time datetime="2026-11-04T06:30:00Z">Nov 04 06:30</time>')
    """
    return Markup('<time datetime="{}">{}</time>').format(f"{at:%Y-%m-%dT%H:%M:%S}Z", on(at, now))
