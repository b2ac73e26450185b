"""Does a result satisfy a criterion? Pure: columns and rows in, a judgement out.

Whatever cannot be compared beyond doubt is `errored`, never a pass: a missing column, no row, several
rows, a text where a number is required. NULL is an answer, and it fails.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pipestate.runbook.require import ROWS, Comparison, Requirement, Value
from pipestate.verify.values import Json, as_record, shown
from pipestate.verify.verdict import Outcome

Row = Sequence[object]

_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """`message` tells, for a pass, what held; otherwise, what did not."""

    outcome: Outcome
    observed: Mapping[str, Json]
    message: str


def judge(requirement: Requirement, columns: Sequence[str], rows: Sequence[Row]) -> Judgement:
    """The result of a check's query against its criterion."""
    observed = _observed(requirement, columns, rows)
    unclear = list(_unclear(requirement, columns))
    if unclear:
        return Judgement(Outcome.ERRORED, observed, "; ".join(unclear))
    counted = [_compare(each, len(rows)) for each in requirement.comparisons if each.column == ROWS]
    if any(outcome is Outcome.FAILED for outcome, _ in counted):
        return _summed_up(counted, observed)
    compared = [each for each in requirement.comparisons if each.column != ROWS]
    if compared and len(rows) != 1:
        return Judgement(Outcome.ERRORED, observed, _not_one_row(len(rows), columns))
    named = [_compare(each, rows[0][_position(each.column, columns)[0]]) for each in compared]
    return _summed_up(counted + named, observed)


def _observed(requirement: Requirement, columns: Sequence[str], rows: Sequence[Row]) -> dict[str, Json]:
    counts = any(each.column == ROWS for each in requirement.comparisons) or len(rows) != 1
    count: dict[str, Json] = {ROWS: len(rows)} if counts else {}
    return count | (as_record(columns, rows[0]) if len(rows) == 1 else {})


def _unclear(requirement: Requirement, columns: Sequence[str]) -> Iterator[str]:
    """What is wrong with the check itself, whatever the data."""
    returned = f"the query returned {', '.join(columns) or 'no columns'}"
    if not requirement.comparisons:
        yield "the check has no criterion"
    for column in dict.fromkeys(each.column for each in requirement.comparisons):
        found = len(_position(column, columns))
        if column == ROWS and found:
            yield f"`rows` is the number of rows, but {returned}: rename that column"
        elif column != ROWS and found == 0:
            yield f"no column {column}: {returned}"
        elif column != ROWS and found > 1:
            yield f"column {column} is there {found} times: {returned}"


def _position(column: str, columns: Sequence[str]) -> list[int]:
    """Where a column is: by its exact name, else without regard to case, as SQL takes bare names."""
    exact = [index for index, name in enumerate(columns) if name == column]
    return exact or [index for index, name in enumerate(columns) if name.lower() == column.lower()]


def _not_one_row(count: int, columns: Sequence[str]) -> str:
    rows = "no row" if count == 0 else f"{count} rows"
    return (
        f"the query returned {rows} of {', '.join(columns)}; comparing a column needs exactly one: "
        "aggregate in the query, or require `rows`"
    )


def _summed_up(results: list[tuple[Outcome, str]], observed: Mapping[str, Json]) -> Judgement:
    """The worst outcome, and the messages that belong to it."""
    for outcome in (Outcome.ERRORED, Outcome.FAILED, Outcome.PASSED):
        messages = [message for each, message in results if each is outcome]
        if messages:
            return Judgement(outcome, observed, "; ".join(messages))
    return Judgement(Outcome.ERRORED, observed, "the check has no criterion")


def _compare(comparison: Comparison, value: object) -> tuple[Outcome, str]:
    said = f"{comparison.column} is {shown(value)}, required {comparison.required}"
    if value is None or _is_nan(value):
        return Outcome.FAILED, said
    sides = _comparable(value, comparison.value)
    if sides is None:
        return Outcome.ERRORED, f"{said}: {_kind(value)} cannot be compared with {_kind(comparison.value)}"
    return (Outcome.PASSED if _HOLDS[comparison.op](*sides) else Outcome.FAILED), said


def _comparable(observed: object, required: Value) -> tuple[object, object] | None:
    """Both sides as one kind of value, or None where that would be a guess."""
    if isinstance(required, bool):
        # SQLite has no booleans: its true and false arrive as 1 and 0.
        is_truth = isinstance(observed, bool) or (isinstance(observed, int) and observed in (0, 1))
        return (bool(observed), required) if is_truth else None
    if isinstance(required, str):
        return (observed, required) if isinstance(observed, str) else None
    if isinstance(observed, float):
        # The decimal that the float is written as: 0.1 equals 0.1, as the reader of both sees it.
        return Decimal(repr(observed)), required
    is_number = isinstance(observed, int | Decimal) and not isinstance(observed, bool)
    return (observed, required) if is_number else None


def _is_nan(value: object) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float) and math.isnan(value)


def _kind(value: object) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float() | Decimal():
            return "a number"
        case str():
            return "a text"
    return f"a value of type {type(value).__name__}"
