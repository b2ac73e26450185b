"""Criterion of a check: parse `stuck_pct < 1.0 and total >= 0` into comparisons."""

import re
from dataclasses import dataclass
from decimal import Decimal

from pipestate.core.errors import PipestateError

Value = int | Decimal | str | bool

ROWS = "rows"
MAX_DIGITS = 100

_SPACE = re.compile(r"\s*")
_COLUMN = re.compile(r"[^\W\d][\w$]*")
_OPERATOR = re.compile(r"<=|>=|!=|<>|==|=|<|>")
_STRING = re.compile(r"'((?:[^']|'')*+)'")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?![\w.%])")
_WORD = re.compile(r"\S+")
_AND = re.compile(r"and\b", re.IGNORECASE)

_OPERATORS_MISSPELT = {"==": "=", "<>": "!="}
_FORM = "write it like `stuck_pct < 1.0 and total >= 1`, or `rows = 0`"


class RequirementError(PipestateError):
    """A criterion with a syntax error."""

    def __init__(self, text: str, what: str) -> None:
        super().__init__(text, what)
        self.text = text
        self.what = what

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of a column, or `rows`, with a literal."""

    column: str
    op: str
    value: Value

    @property
    def required(self) -> str:
        """Format the comparison for a message, after the word "required".

        >>> Comparison("stuck_pct", "<", Decimal("1.0")).required
        '< 1.0'
        """
        return f"{self.op} {literal(self.value)}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A conjunction of comparisons. `text` is the criterion as written in the runbook."""

    text: str
    comparisons: tuple[Comparison, ...]

    @property
    def counts_rows(self) -> bool:
        """Tell whether the criterion uses only the number of rows."""
        return bool(self.comparisons) and all(each.column == ROWS for each in self.comparisons)

    @property
    def shows_own_rows(self) -> bool:
        """Tell whether the rows of the query are the faults themselves: `rows = 0`, but not `rows >= 1`."""
        return self.counts_rows and any(each.op not in (">", ">=") for each in self.comparisons)


def literal(value: Value) -> str:
    """Format a value as a runbook writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def parse_requirement(text: str) -> Requirement:
    """Parse a criterion; RequirementError explains the fault and the correct form."""
    cursor = _Cursor(text.strip())
    comparisons = [_comparison(cursor)]
    while not cursor.at_end():
        _conjunction(cursor)
        comparisons.append(_comparison(cursor))
    return Requirement(cursor.text, tuple(comparisons))


class _Cursor:
    """Position of the parser in the criterion."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._position = 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self._skip_space()
        match = pattern.match(self.text, self._position)
        if match:
            self._position = match.end()
        return match

    def at_end(self) -> bool:
        self._skip_space()
        return self._position == len(self.text)

    def next_word(self) -> str:
        self._skip_space()
        word = _WORD.match(self.text, self._position)
        return word.group() if word else "the end"

    def fail(self, what: str) -> RequirementError:
        return RequirementError(self.text, what)

    def _skip_space(self) -> None:
        space = _SPACE.match(self.text, self._position)
        self._position = space.end() if space else self._position


def _comparison(cursor: _Cursor) -> Comparison:
    column = cursor.take(_COLUMN)
    if not column:
        raise cursor.fail(f"expected a column of the query, or `rows`, not {cursor.next_word()}: {_FORM}")
    name = ROWS if column.group().lower() == ROWS else column.group()
    op = _operator(cursor, name)
    return _sensible(cursor, Comparison(name, op, _value(cursor, f"{name} {op}")))


def _operator(cursor: _Cursor, column: str) -> str:
    word = cursor.next_word()
    op = cursor.take(_OPERATOR)
    if not op:
        raise cursor.fail(f"expected = != < <= > or >= after {column}, not {word}: {_FORM}")
    if op.group() in _OPERATORS_MISSPELT:
        raise cursor.fail(f"{op.group()} is not an operator here: write {_OPERATORS_MISSPELT[op.group()]}")
    return op.group()


def _value(cursor: _Cursor, before: str) -> Value:
    if string := cursor.take(_STRING):
        return string.group(1).replace("''", "'")
    word = cursor.next_word()
    if number := cursor.take(_NUMBER):
        return _number(cursor, number.group())
    truth = {"true": True, "false": False}.get(word.lower())
    if truth is None:
        raise cursor.fail(f"expected a literal after `{before}`, not {word}: {_advice(word)}")
    cursor.take(_WORD)
    return truth


def _number(cursor: _Cursor, digits: str) -> int | Decimal:
    if len(digits) > MAX_DIGITS:
        raise cursor.fail(f"a number of {len(digits)} digits: write one of at most {MAX_DIGITS}")
    return Decimal(digits) if "." in digits else int(digits)


def _advice(word: str) -> str:
    if word.lower() == "null":
        return "NULL never passes; have the query return a number or a boolean, as (x IS NULL) AS x_missing"
    if word.startswith("'"):
        return "close the string with a single quote"
    if word.startswith('"'):
        return "a string stands in single quotes"
    if re.match(r"[+\-.]?\d", word):
        return "write a number as 12, -3 or 99.5"
    return "a literal is a number, a 'string', true or false; compare columns with each other in the query"


def _conjunction(cursor: _Cursor) -> None:
    word = cursor.next_word()
    if not cursor.take(_AND):
        advice = "make it one column of the query" if word.lower() == "or" else _FORM
        raise cursor.fail(f"expected `and` or the end of the criterion, not {word}: {advice}")


def _sensible(cursor: _Cursor, comparison: Comparison) -> Comparison:
    """Refuse a comparison that could never be evaluated, so that lint reports it before a run."""
    if isinstance(comparison.value, bool) and comparison.op not in ("=", "!="):
        raise cursor.fail(f"{comparison.column} {comparison.required}: true and false take = or !=")
    if comparison.column == ROWS and isinstance(comparison.value, bool | str):
        raise cursor.fail(f"rows {comparison.required}: `rows` is a number, compare it with one")
    return comparison
