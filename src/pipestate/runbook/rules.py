"""What a check's SQL must be besides a plain read, so that its verdict and its rows tell the truth."""

from collections.abc import Iterator

from pipestate.runbook.model import Check
from pipestate.runbook.statement import Token, tokens


def faults(check: Check) -> Iterator[str]:
    """What is wrong with it, each with how to fix it."""
    if check.require.shows_own_rows and cuts_rows(check.sql, check.dialect):
        yield (
            f"LIMIT hides rows from `require: {check.require.text}`: take it out; "
            "the first rows are shown, and all are counted"
        )


def cuts_rows(sql: str, dialect: str | None) -> bool:
    """Whether a LIMIT or FETCH FIRST of the statement itself, not of a subquery, cuts its rows.

    >>> cuts_rows("SELECT a FROM b LIMIT 10", None), cuts_rows("SELECT (SELECT a FROM b LIMIT 1)", None)
    (True, False)
    """
    top = list(_top_level(_without_parentheses(tokens(sql, dialect))))
    if top and top[0].keyword == "EXPLAIN":
        return False  # a plan has the rows that it has
    return any(
        _cuts(before, token, after) for before, token, after in zip(top, top[1:], top[2:], strict=False)
    )


def _cuts(before: Token, token: Token, after: Token) -> bool:
    if before.text == "." or before.keyword == "AS":
        return False
    return token.keyword == "LIMIT" or (token.keyword == "FETCH" and after.keyword in ("FIRST", "NEXT"))


def _top_level(seen: list[Token]) -> Iterator[Token]:
    depth = 0
    for token in seen:
        depth -= token.text == ")"
        if depth == 0:
            yield token
        depth += token.text == "("


def _without_parentheses(seen: list[Token]) -> list[Token]:
    """The statement without pairs of parentheses that enclose all of it."""
    while len(seen) > 2 and seen[0].text == "(" and _closes_last(seen):
        seen = seen[1:-1]
    return seen


def _closes_last(seen: list[Token]) -> bool:
    depth = 0
    for place, token in enumerate(seen, start=1):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return place == len(seen)
    return False
