"""What a block's SQL must be besides a plain read, so that its verdict and its rows tell the truth."""

from collections.abc import Iterator

from pipestate.runbook.engines import only_postgresql
from pipestate.runbook.model import Backfill, Check, Evidence, View, is_for_postgresql
from pipestate.runbook.statement import Token, tokens
from pipestate.runbook.window import stands_in

Query = Check | Evidence | View | Backfill

AGE = "age_seconds"


def faults(check: Check) -> Iterator[str]:
    """Find what is wrong between a check's SQL and its directives, each with how to fix it."""
    if check.require.shows_own_rows and cuts_rows(check.sql, check.dialect):
        yield (
            f"LIMIT hides rows from `{check.require.text}`: take it out; "
            "the first rows are shown, and all are counted"
        )
    if check.window and check.again is None and not stands_in(check.sql, check.window, check.dialect):
        yield (
            f"`-- window: {check.window}` stands in no literal of its SQL, so it could not be another: "
            f"write the length there as '{check.window}', or take the line out"
        )
    if not asks_age(check):
        yield (
            f"an observation may be a year old: add `and {AGE} <= 3600`, or the like, to what it requires "
            f"of latest_observation (or compare {AGE} in its SQL)"
        )


def foreign(query: Query) -> Iterator[str]:
    """Name what SQLite cannot read of a block that is for both engines, or for SQLite."""
    if is_for_postgresql(query) or not (found := only_postgresql(query.sql)):
        return
    shown = ", ".join(f"`{each}`" for each in found[:3])
    yield f"SQLite does not know {shown}{' and others' if len(found) > 3 else ''}"


def asks_age(check: Check) -> bool:
    """Tell whether a check on the newest observation also asks how old that is."""
    seen = tokens(check.sql, check.dialect)
    if not any(token.identifier == "latest_observation" for token in seen):
        return True
    if any(each.column.lower() == AGE for each in check.require.comparisons):
        return True
    return any(
        token.identifier == AGE and not _is_only_shown(before, after)
        for before, token, after in zip([None, *seen], seen, [*seen[1:], None], strict=False)
    )


def _is_only_shown(before: Token | None, after: Token | None) -> bool:
    """Tell whether a column stands alone in the list of what is selected."""
    begins = before is None or before.text in (",", ".") or before.keyword in ("SELECT", "DISTINCT")
    return begins and (after is None or after.text in (",", ")") or after.keyword in ("FROM", "AS"))


def cuts_rows(sql: str, dialect: str | None) -> bool:
    """Tell whether a LIMIT or FETCH FIRST of the statement itself, not of a subquery, cuts its rows.

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
    """Take off pairs of parentheses that enclose the whole statement."""
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
