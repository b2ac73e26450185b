"""Ages and moments as people type them: `30d`, `1y`, `30s`, `2026-01-20`."""

import re
from datetime import UTC, datetime, timedelta

from pipestate.core.errors import ConfigError

UNITS = {
    "y": timedelta(days=365),
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}
_NO_MOMENT = "--since {text}: write an age such as 7d, or a date such as 2026-01-20"


def parse_age(text: str, *, option: str = "--older-than", units: str = "dhm") -> timedelta:
    """Read an age in one of the units.

    >>> parse_age("30d")
    datetime.timedelta(days=30)
    """
    found = re.fullmatch(rf"([0-9]{{1,6}})([{units}])", text.strip())
    if found is None:
        examples = {"y": "1y", "w": "6w", "d": "30d", "h": "12h", "m": "45m", "s": "30s"}
        *first, last = (examples[unit] for unit in units)
        raise ConfigError(f"{option} {text}: write {', '.join(first)} or {last}")
    return int(found[1]) * UNITS[found[2]]


def parse_since(text: str, *, now: datetime) -> datetime:
    """Read an age, a date or a time; UTC is the default zone.

    >>> parse_since("2026-01-20", now=datetime.now(UTC)).isoformat()
    '2026-01-20T00:00:00+00:00'
    """
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except ValueError:
        pass
    except OverflowError as error:
        raise ConfigError(_NO_MOMENT.format(text=text)) from error
    try:
        return now - parse_age(text, option="--since", units="ywdhm")
    except (ConfigError, OverflowError) as error:
        raise ConfigError(_NO_MOMENT.format(text=text)) from error
