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
    comparisons = [cursor.comparison()]
    while cursor.position < len(cursor.text):
        word = cursor.word
        if not cursor.take(_AND):
            advice = "make it one column of the query" if word.lower() == "or" else _FORM
            raise RequirementError(f"expected `and` or the end of the criterion, not {word}: {advice}")
        comparisons.append(cursor.comparison())
    return Requirement(cursor.text, tuple(comparisons))


class _Cursor:
    """Position of the parser in the criterion, at the beginning of a word."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.position)
        if match and (after := _SPACE.match(self.text, match.end())):
            self.position = after.end()
        return match

    @property
    def word(self) -> str:
        word = _WORD.match(self.text, self.position)
        return word.group() if word else "the end"

    def comparison(self) -> Comparison:
        """Read a comparison; refuse one that could never be evaluated: lint reports it before a run."""
        found = self.take(_COLUMN)
        if not found:
            raise RequirementError(f"expected a column of the query, or `rows`, not {self.word}: {_FORM}")
        column = ROWS if found.group().lower() == ROWS else found.group()
        word, sign = self.word, self.take(_OPERATOR)
        if not sign:
            raise RequirementError(f"expected = != < <= > or >= after {column}, not {word}: {_FORM}")
        op = sign.group()
        if op in _OPERATORS_MISSPELT:
            raise RequirementError(f"{op} is not an operator here: write {_OPERATORS_MISSPELT[op]}")
        comparison = Comparison(column, op, self._value(f"{column} {op}"))
        if isinstance(comparison.value, bool) and op not in ("=", "!="):
            raise RequirementError(f"{column} {comparison.required}: true and false take = or !=")
        if column == ROWS and isinstance(comparison.value, bool | str):
            raise RequirementError(f"rows {comparison.required}: `rows` is a number, compare it with one")
        return comparison

    def _value(self, before: str) -> Value:
        if string := self.take(_STRING):
            return string.group(1).replace("''", "'")
        word = self.word
        if number := self.take(_NUMBER):
            digits = number.group()
            if len(digits) > MAX_DIGITS:
                raise RequirementError(f"a number of {len(digits)} digits: write one of at most {MAX_DIGITS}")
            return Decimal(digits) if "." in digits else int(digits)
        truth = {"true": True, "false": False}.get(word.lower())
        if truth is None:
            raise RequirementError(f"expected a literal after `{before}`, not {word}: {_advice(word)}")
        self.take(_WORD)
        return truth


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
