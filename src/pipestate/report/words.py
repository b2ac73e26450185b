"""Texts of the report: moments in UTC, places, names, and the summary of the gates."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePath

from markupsafe import Markup, escape

from pipestate.core.text import escape_controls, many
from pipestate.database.urls import database_name
from pipestate.status.model import Day, DayState

_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)")
_ADDRESS = re.compile(r"\b(?:postgresql|sqlite)(?:\+\w+)?://\S+")
_BREAK = re.compile(r"(?<=[_/])(?=\w)|(?<=\.)(?=[^\W\d_])")
DAY_WORDS = {
    DayState.OPEN: "open",
    DayState.CLOSED: "closed",
    DayState.MIXED: "open and closed",
    DayState.GAP: "no record",
    DayState.NONE: "before the first record",
}


def moment(at: datetime) -> Markup:
    """Write a moment as an HTML element that programs can read, too.

    >>> moment(datetime(2026, 11, 4, 6, 30))
    Markup('<time datetime="2026-11-04T06:30:00Z">4 Nov 2026, 06:30</time>')
    """
    return Markup('<time datetime="{}">{} {}</time>').format(
        f"{at:%Y-%m-%dT%H:%M:%S}Z", at.day, f"{at:%b %Y, %H:%M}"
    )


def utc(at: datetime) -> Markup:
    """Write a moment with its zone, on one line."""
    return moment(at) + "\N{NO-BREAK SPACE}UTC"


def timestamp(text: str) -> Markup | None:
    """Write a timestamp of a row as a moment; return None for other text.

    >>> timestamp("2026-11-04T07:30:00.25+01:00"), timestamp("2026-11-04")
    (Markup('<time datetime="2026-11-04T06:30:00Z">4 Nov 2026, 06:30</time>'), None)
    """
    if _TIMESTAMP.fullmatch(text) is None:
        return None
    try:
        return moment(datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError):
        return None


def places(text: str) -> str:
    """Replace each database URL in a text by its name and host.

    >>> places("a clone of postgresql://civic@/civic?host=%2Ftmp%2Fx, 3 rows")
    'a clone of civic on this machine, 3 rows'
    """

    def place(found: re.Match[str]) -> str:
        url = found[0].rstrip(",;.")
        return database_name(url) + found[0][len(url) :]

    return _ADDRESS.sub(place, text)


def short_path(path: str) -> str:
    """Return the end of a path: the file and its folder.

    >>> short_path("/srv/app/runbooks/orders.md:12"), short_path("orders.md")
    ('runbooks/orders.md:12', 'orders.md')
    """
    parts = PurePath(path).parts
    return "/".join(parts[-2:]) if len(parts) > 2 else path


def identifier(name: str) -> Markup:
    """Write a name so that a line may break after an underscore, a slash or a dot.

    >>> identifier("failed_ocr/jobs")
    Markup('failed_<wbr>ocr/<wbr>jobs')
    """
    return Markup("<wbr>").join(escape(part) for part in _BREAK.split(escape_controls(name)))


def strip_words(days: Sequence[Day]) -> str:
    """Describe a strip of days in words."""
    counts = Counter(day.state for day in days)
    said = [f"{many(counts[state], 'day')} {DAY_WORDS[state]}" for state in DayState if counts[state]]
    return f"The last {many(len(days), 'day')}: {', '.join(said)}"
