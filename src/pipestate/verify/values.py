"""Values of a query's result: as JSON takes them, and as a message shows them."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TypeAlias

from pipestate.core.errors import PipestateError
from pipestate.core.text import OBEYED

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Row: TypeAlias = "tuple[object, ...]"

SHOWN_LENGTH = 80
# Control characters, line breaks of any kind, half surrogates, and marks that turn the direction of text.
_UNSEEN = re.compile(rf"[\x00{OBEYED}\ud800-\udfff]")
MOST_NESTED = 50


class QueryFailed(PipestateError):
    """A query without an answer: the message says why, in one sentence."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The first rows of a query's result, and the number of all."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    total: int

    def records(self) -> tuple[dict[str, Json], ...]:
        return tuple(as_record(self.columns, row) for row in self.rows)


def as_record(columns: Sequence[str], row: Sequence[object]) -> dict[str, Json]:
    """Return a row by column: an observation, or a line of evidence."""
    return {column: json_safe(value) for column, value in zip(columns, row, strict=True)}


def json_safe(value: object, depth: int = 0) -> Json:
    """Return the nearest JSON value; NaN, a UUID or an interval becomes text.

    Deep nesting is cut, and half a surrogate pair is replaced: a report can hold every result.
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
    """Write a value into a message, exactly as it was compared.

    >>> shown(None), shown(True), shown("it's"), shown(Decimal("3.30")), shown(Decimal("0.30000000000000000000"))
    ('NULL', 'true', "'it''s'", '3.30', '0.3')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return shortened("'" + escaped(value.replace("'", "''")) + "'")
        case Decimal() if value.is_finite() and abs(value.adjusted()) < SHOWN_LENGTH:
            return _without_zeros(format(value, "f"))
    return shortened(escaped(str(json_safe(value))))


def _without_zeros(number: str) -> str:
    """Remove the zeros at the end of a long fraction, as division in SQL gives it.

    >>> _without_zeros("0.30000000000000000000"), _without_zeros("95.000"), _without_zeros("3.30")
    ('0.3', '95.0', '3.30')
    """
    whole, _, fraction = number.partition(".")
    return number if len(fraction) <= 2 else f"{whole}.{fraction.rstrip('0') or '0'}"


def shortened(text: str, length: int = SHOWN_LENGTH) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def escaped(text: str) -> str:
    """Escape line breaks and characters that a terminal obeys: a message is one sentence.

    >>> escaped("a\\n\x1b[31mb")
    'a\\\\n\\\\x1b[31mb'
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _number(value: Decimal) -> Json:
    """Return a JSON number; a text if a float would be infinite."""
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
    """Write UTC with a Z; a time without a zone stays without one."""
    if value.tzinfo is None:
        return value.isoformat()
    try:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return value.isoformat()
