"""Judgement of a query's result against a criterion: columns and rows in, a judgement out.

A doubtful comparison is `errored`, never a pass: a missing column, several rows, a text for a number. NULL and an
empty result fail.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pipestate.core.text import many
from pipestate.runbook.criterion import ROWS, Comparison, Requirement, Value
from pipestate.verify.read import QueryResult
from pipestate.verify.report import Json, Outcome, as_record, shortened, shown

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
    """An outcome; `message` names the comparisons that led to it."""

    outcome: Outcome
    observed: Mapping[str, Json]
    message: str


def judge(requirement: Requirement, result: QueryResult) -> Judgement:
    """Judge the result of a check's query by its criterion."""
    counts = any(each.column == ROWS for each in requirement.comparisons) or result.total != 1
    observed: dict[str, Json] = {ROWS: result.total} if counts else {}
    if result.total == 1:
        observed |= as_record(result.columns, result.rows[0])
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
        several = (
            f"the query returned {many(result.total, 'row')} of {', '.join(result.columns)}; comparing a column "
            "needs exactly one: aggregate in the query, or require `rows`"
        )
        return Judgement(Outcome.ERRORED, observed, several)
    named = [_compare(each, result.rows[0][_position(each.column, result.columns)[0]]) for each in compared]
    return _summed_up(counted + named, observed)


def _first_of(requirement: Requirement, result: QueryResult) -> str:
    """Write the number of rows, and the first of them."""
    first = [pair for pair in zip(result.columns, result.rows[0], strict=True) if pair[1] is not None]
    named = len(result.columns) > 1
    listed = ", ".join(f"{name} {shown(value)}" if named else shown(value) for name, value in first)
    return f"{many(result.total, 'row')}, first: {shortened(listed or 'NULL', FIRST_ROW)}; required {requirement.text}"


def _unclear(requirement: Requirement, columns: Sequence[str]) -> Iterator[str]:
    """Find the faults of the check itself, independent of the data."""
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
    """Find a column by its exact name, else in any case, as SQL takes bare names."""
    exact = [index for index, name in enumerate(columns) if name == column]
    return exact or [index for index, name in enumerate(columns) if name.lower() == column.lower()]


def _summed_up(results: list[tuple[Outcome, str]], observed: Mapping[str, Json]) -> Judgement:
    """Take the worst outcome, and its messages."""
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
    """Say whether one comparison of a criterion holds for a value; an impossible comparison does not hold."""
    return _compare(comparison, value)[0] is Outcome.PASSED


def _comparable(observed: object, required: Value) -> tuple[object, object] | None:
    """Return both sides as one kind of value, or None if that would be a guess."""
    if isinstance(required, bool):
        # SQLite has no booleans: its true and false arrive as 1 and 0.
        is_truth = isinstance(observed, bool) or (isinstance(observed, int) and observed in (0, 1))
        return (bool(observed), required) if is_truth else None
    if isinstance(required, str):
        return (observed, required) if isinstance(observed, str) else None
    if isinstance(observed, float):
        # The decimal as the float is written: 0.1 equals 0.1.
        return Decimal(repr(observed)), required
    is_number = isinstance(observed, int | Decimal) and not isinstance(observed, bool)
    return (observed, required) if is_number else None


def _is_nan(value: object) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()  # a signalling NaN, too
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
