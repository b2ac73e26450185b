"""What a driver returns, as JSON takes it and as a message shows it: the one place for both."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

SHOWN_LENGTH = 80


def as_record(columns: Sequence[str], row: Sequence[object]) -> dict[str, Json]:
    """A row of a result, by column: an observation, or a line of evidence."""
    return {column: json_safe(value) for column, value in zip(columns, row, strict=True)}


def json_safe(value: object) -> Json:
    """The nearest value that JSON has. What it has not at all becomes text: NaN, a UUID, an interval."""
    match value:
        case None | bool() | int() | str():
            return value
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
            return {str(key): json_safe(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [json_safe(each) for each in value]
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
            return _shortened("'" + value.replace("'", "''") + "'")
        case Decimal() if value.is_finite() and abs(value.adjusted()) < SHOWN_LENGTH:
            return format(value, "f")
    return _shortened(str(json_safe(value)))


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 1] + "…"


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
