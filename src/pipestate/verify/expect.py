"""Does a result satisfy a criterion? Pure: columns and rows in, a judgement out.

Whatever cannot be compared beyond doubt is `errored`, never a pass: a missing column, several rows, a
text where a number is required. NULL and no row at all are answers, and they fail.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pipestate.plural import many
from pipestate.runbook.require import ROWS, Comparison, Requirement, Value
from pipestate.verify.values import Json, QueryResult, as_record, shortened, shown
from pipestate.verify.verdict import Outcome

FIRST_ROW = 200

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


def judge(requirement: Requirement, result: QueryResult) -> Judgement:
    """The result of a check's query against its criterion."""
    observed = _observed(requirement, result)
    unclear = list(_unclear(requirement, result.columns))
    if unclear:
        return Judgement(Outcome.ERRORED, observed, "; ".join(unclear))
    counted = [_compare(each, result.total) for each in requirement.comparisons if each.column == ROWS]
    compared = [each for each in requirement.comparisons if each.column != ROWS]
    if any(outcome is Outcome.FAILED for outcome, _ in counted):
        if result.rows and not compared:
            return Judgement(Outcome.FAILED, observed, _first_of(requirement, result))
        return _summed_up(counted, observed)
    if compared and result.total == 0:
        return Judgement(Outcome.FAILED, observed, f"no row, required {requirement.text}")
    if compared and result.total > 1:
        return Judgement(Outcome.ERRORED, observed, _several_rows(result))
    named = [_compare(each, result.rows[0][_position(each.column, result.columns)[0]]) for each in compared]
    return _summed_up(counted + named, observed)


def _observed(requirement: Requirement, result: QueryResult) -> dict[str, Json]:
    counts = any(each.column == ROWS for each in requirement.comparisons) or result.total != 1
    count: dict[str, Json] = {ROWS: result.total} if counts else {}
    return count | (as_record(result.columns, result.rows[0]) if result.total == 1 else {})


def _first_of(requirement: Requirement, result: QueryResult) -> str:
    """How many rows, and the first of them: a check that lists culprits names one in its message."""
    first = [pair for pair in zip(result.columns, result.rows[0], strict=True) if pair[1] is not None]
    named = len(result.columns) > 1
    told = ", ".join(f"{name} {shown(value)}" if named else shown(value) for name, value in first)
    return f"{many(result.total, 'row')}, first: {shortened(told or 'NULL', FIRST_ROW)}; required {requirement.text}"


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


def _several_rows(result: QueryResult) -> str:
    return (
        f"the query returned {many(result.total, 'row')} of {', '.join(result.columns)}; comparing a column "
        "needs exactly one: aggregate in the query, or require `rows`"
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


def holds(comparison: Comparison, value: object) -> bool:
    """Say whether one comparison of a criterion holds for a value; what cannot be compared does not."""
    return _compare(comparison, value)[0] is Outcome.PASSED


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
