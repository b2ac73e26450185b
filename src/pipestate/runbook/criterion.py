"""Criterion of a check: parse `stuck_pct < 1.0 and total >= 0` into comparisons."""

import re
from dataclasses import dataclass
from decimal import Decimal

from pipestate.core.errors import PipestateError

Value = int | Decimal | str | bool

ROWS = "rows"
MAX_DIGITS = 100

_COMPARISON = re.compile(
    r"""
    (?: (?P<column> [^\W\d][\w$]* ) \s* )?
    (?: (?P<op> <= | >= | != | <> | == | = | < | > ) \s* )?
    (?: (?: '(?P<string> (?:[^']|'')*+ )' | (?P<number> -?[0-9]+(?:\.[0-9]+)? ) (?![\w.%])
          | (?P<truth> (?i:true|false) ) (?!\S) ) \s* )?
    """,
    re.VERBOSE,
)
_AND = re.compile(r"and\b\s*", re.IGNORECASE)
_WORD = re.compile(r"\s*(\S+)")

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
    text, position = text.strip(), 0
    comparisons = []
    while True:
        found = _COMPARISON.match(text, position)
        assert found is not None  # every part is optional
        comparisons.append(_comparison(text, found))
        if found.end() == len(text):
            return Requirement(text, tuple(comparisons))
        joined, word = _AND.match(text, found.end()), _word(text, found.end())
        if not joined:
            advice = "make it one column of the query" if word.lower() == "or" else _FORM
            raise RequirementError(f"expected `and` or the end of the criterion, not {word}: {advice}")
        position = joined.end()


def _comparison(text: str, found: re.Match[str]) -> Comparison:
    """Read a comparison; refuse one that could never be evaluated: lint reports it before a run."""
    column, op = found["column"], found["op"]
    if column is None:
        word = _word(text, found.start())
        raise RequirementError(f"expected a column of the query, or `rows`, not {word}: {_FORM}")
    column = ROWS if column.lower() == ROWS else column
    if op is None:
        word = _word(text, found.end("column"))
        raise RequirementError(f"expected = != < <= > or >= after {column}, not {word}: {_FORM}")
    if op in _OPERATORS_MISSPELT:
        raise RequirementError(f"{op} is not an operator here: write {_OPERATORS_MISSPELT[op]}")
    comparison = Comparison(column, op, _value(text, found))
    if isinstance(comparison.value, bool) and op not in ("=", "!="):
        raise RequirementError(f"{column} {comparison.required}: true and false take = or !=")
    if column == ROWS and isinstance(comparison.value, bool | str):
        raise RequirementError(f"rows {comparison.required}: `rows` is a number, compare it with one")
    return comparison


def _value(text: str, found: re.Match[str]) -> Value:
    string, digits, truth = found["string"], found["number"], found["truth"]
    if string is not None:
        return string.replace("''", "'")
    if digits is not None and len(digits) > MAX_DIGITS:
        raise RequirementError(f"a number of {len(digits)} digits: write one of at most {MAX_DIGITS}")
    if digits is not None:
        return Decimal(digits) if "." in digits else int(digits)
    if truth is not None:
        return truth.lower() == "true"
    word, before = _word(text, found.end("op")), f"{found['column']} {found['op']}"
    raise RequirementError(f"expected a literal after `{before}`, not {word}: {_advice(word)}")


def _word(text: str, at: int) -> str:
    word = _WORD.match(text, at)
    return word[1] if word else "the end"


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
