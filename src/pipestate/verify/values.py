"""What a driver returns, as JSON takes it and as a message shows it: the one place for both."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TypeAlias

from pipestate.safe import OBEYED

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Row: TypeAlias = "tuple[object, ...]"

SHOWN_LENGTH = 80
# Control characters, line breaks of any kind, half surrogates, and marks that turn the direction of text.
_UNSEEN = re.compile(rf"[\x00{OBEYED}\ud800-\udfff]")
MOST_NESTED = 50


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What a query returned: its first rows, and the true number of all."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    total: int

    def records(self) -> tuple[dict[str, Json], ...]:
        return tuple(as_record(self.columns, row) for row in self.rows)


def as_record(columns: Sequence[str], row: Sequence[object]) -> dict[str, Json]:
    """A row of a result, by column: an observation, or a line of evidence."""
    return {column: json_safe(value) for column, value in zip(columns, row, strict=True)}


def json_safe(value: object, depth: int = 0) -> Json:
    """The nearest value that JSON has. What it has not at all becomes text: NaN, a UUID, an interval.

    What is nested deeper than anybody reads is cut, and half a surrogate pair, which no encoding can
    write, is replaced: a report must come out whatever a query returned.
    """
    if depth > MOST_NESTED:
        return "…"
    match value:
        case None | bool() | int():
            return value
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case Decimal():
            return _number(value)
        case datetime():
            return _instant(value)
        case date() | time():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case Mapping():
            return {str(key): json_safe(each, depth + 1) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [json_safe(each, depth + 1) for each in value]
    return str(value)


def shown(value: object) -> str:
    """A value in a message: exact, so that what is shown is what was compared.

    >>> shown(None), shown(True), shown("it's"), shown(Decimal("3.30"))
    ('NULL', 'true', "'it''s'", '3.30')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return shortened("'" + escaped(value.replace("'", "''")) + "'")
        case Decimal() if value.is_finite() and abs(value.adjusted()) < SHOWN_LENGTH:
            return format(value, "f")
    return shortened(escaped(str(json_safe(value))))


def shortened(text: str, length: int = SHOWN_LENGTH) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def escaped(text: str) -> str:
    """Escape line breaks and what a terminal would obey: a message is one sentence, whatever the data.

    >>> escaped("a\\n\x1b[31mb")
    'a\\\\n\\\\x1b[31mb'
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _number(value: Decimal) -> Json:
    """A number as JSON's readers take it; as text where a float would be infinite."""
    if not value.is_finite():
        return _not_finite(value)
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= 0 and value.adjusted() < SHOWN_LENGTH:
        return int(value)
    return float(value) if math.isfinite(float(value)) else str(value)


def _not_finite(value: float | Decimal) -> str:
    if value.is_nan() if isinstance(value, Decimal) else math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _instant(value: datetime) -> str:
    """UTC with a Z. A time without a zone stays without one: which it is in, nobody knows here."""
    if value.tzinfo is None:
        return value.isoformat()
    try:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return value.isoformat()
