"""The length of time in a check's SQL: `-- window: 24 hours`, and `again: …, over `48 hours``."""

import re
from collections.abc import Iterator

from pipestate.runbook.statement import Token, tokens

FORM = "a number and seconds, minutes, hours or days, as 24 hours"

_LENGTH = re.compile(r"[1-9][0-9]{0,5} (?:second|minute|hour|day)s?")


def is_length(text: str) -> bool:
    """
    >>> is_length("24 hours"), is_length("1 day"), is_length("24h"), is_length("a day")
    (True, True, False, False)
    """
    return _LENGTH.fullmatch(text) is not None


def stands_in(sql: str, length: str, dialect: str | None) -> bool:
    """Tell whether this length stands in a literal of the SQL.

    >>> stands_in("SELECT now() - interval '24 hours' -- 2 days", "24 hours", None)
    True
    >>> stands_in("SELECT now() - interval '124 hours'", "24 hours", None)
    False
    """
    return any(_pattern(length).search(token.text) for token in _literals(sql, dialect))


def stretched(sql: str, length: str, other: str, dialect: str | None) -> str:
    """Replace every occurrence of a length inside the literals of the SQL, and nothing else.

    >>> stretched("SELECT julianday('now', '-24 hours') -- 24 hours", "24 hours", "2 days", "sqlite")
    "SELECT julianday('now', '-2 days') -- 24 hours"
    """
    for token in reversed(list(_literals(sql, dialect))):
        end = token.start + len(token.text)
        sql = sql[: token.start] + _pattern(length).sub(other, token.text) + sql[end:]
    return sql


def _literals(sql: str, dialect: str | None) -> Iterator[Token]:
    return (token for token in tokens(sql, dialect) if token.kind == "string")


def _pattern(length: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.]){re.escape(length)}(?!\w)")
