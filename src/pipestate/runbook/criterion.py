"""Criterion of a check: parse `stuck_pct < 1.0 and total >= 0` into comparisons."""

import operator
import re
from dataclasses import dataclass
from decimal import Decimal

from pipestate.core.errors import PipestateError

Value = int | Decimal | str | bool
OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

ROWS = "rows"

_COMPARISON = re.compile(
    r"""
    (?P<column> [^\W\d][\w$]* ) \s* (?P<op> <= | >= | != | = | < | > ) \s*
    (?: '(?P<string> (?:[^']|'')*+ )' | (?P<number> -?[0-9]{1,100}(?:\.[0-9]{1,100})? ) (?![\w.%])
      | (?P<truth> (?i:true|false) ) (?!\S) ) \s*
    """,
    re.VERBOSE,
)
_AND = re.compile(r"and\b\s*", re.IGNORECASE)
_FORM = (
    "a comparison is a column, one of = != < <= > >=, and a number, a 'string', true or false, as "
    "`stuck_pct < 1.0 and total >= 1`, or `rows = 0`; compute the rest, as `or` and NULL, in the query"
)


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

    def allows(self, number: float) -> bool:
        """Tell whether a recorded number lies within this limit, for a chart or a forecast; checks are judged in SQL."""
        return bool(OPERATORS[self.op](Decimal(repr(number)), self.value))


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
    """Parse a criterion; RequirementError names the faulty part and the correct form."""
    text, position = text.strip(), 0
    comparisons = []
    while found := _COMPARISON.match(text, position):
        comparisons.append(_comparison(found))
        position = found.end()
        if position == len(text):
            return Requirement(text, tuple(comparisons))
        if not (joined := _AND.match(text, position)):
            break
        position = joined.end()
    raise RequirementError(f"cannot read {text[position:][:40] or 'the end'}: {_FORM}")


def _comparison(found: re.Match[str]) -> Comparison:
    """Read a comparison; refuse one that could never be evaluated: lint reports it before a run."""
    column, op, digits = found["column"], found["op"], found["number"]
    value: Value = (found["truth"] or "").lower() == "true"
    if found["string"] is not None:
        value = found["string"].replace("''", "'")
    elif digits is not None:
        value = Decimal(digits) if "." in digits else int(digits)
    comparison = Comparison(ROWS if column.lower() == ROWS else column, op, value)
    if isinstance(value, bool) and op not in ("=", "!="):
        raise RequirementError(f"{column} {comparison.required}: true and false take = or !=")
    if comparison.column == ROWS and isinstance(value, bool | str):
        raise RequirementError(f"rows {comparison.required}: `rows` is a number, compare it with one")
    return comparison
