"""Directives: the leading `-- key: value` lines of a fenced SQL block.

A block without a known directive is prose. In a block with one, a misspelt line is an error, because a
check that is silently skipped would look like a check that passes.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from pipestate.runbook.criterion import RequirementError, parse_requirement
from pipestate.runbook.markdown import Fence
from pipestate.runbook.model import Findings, is_id
from pipestate.runbook.statement import Token, tokens

# Kinds of a block, each with the other directives it accepts.
KINDS = {
    "check": ("require", "dialect", "level", "from", "until", "window"),
    "explains": ("dialect",),
    "view": ("dialect", "from", "until"),
    "backfill": ("table", "key", "dialect"),
}
KNOWN = tuple(dict.fromkeys((*KINDS, *(key for keys in KINDS.values() for key in keys))))

_LINE = re.compile(r"\s*--+\s*(?P<key>[A-Za-z][\w-]*)\s*:(?P<value>.*)")
# Lines easily mistaken for directives: editors' dashes, comments of other languages, `=` or no colon.
_DASHES = "\u2010-\u2015\u2212\ufe58\ufe63\uff0d"
_ALMOST = re.compile(
    rf"(?P<mark>--+|[{_DASHES}]+|-|#+|//|/\*+)?[ \t*]*(?P<around>(?:pipestate[ \t]+)?[\[@<(]*)"
    r"(?P<key>[A-Za-z]+)\b[\])>]*[ \t]*(?P<colon>[:=\uff1a]?)(?P<value>.*)"
)


def read_directives(fence: Fence, found: Findings) -> tuple[dict[str, str], str] | None:
    """Read the directives of a block, and the SQL below them; return None for prose."""
    lines = fence.content.split("\n")
    top = {index: (key, value) for index, key, value in _leading(lines)}
    # A directive below SQL is a comment, so its check would be weaker than written.
    for index, line in enumerate(lines):
        if index not in top and mentions_directives(line):
            found.add(
                fence.line, f"`{line.strip()}` is below the SQL: move directives to the top of the block"
            )
    if not any(key in KNOWN for key, _ in top.values()):
        return None
    values: dict[str, str] = {}
    for key, value in top.values():
        if fault := _fault(key, value, values):
            found.add(fence.line, fault)
        if key in KNOWN:
            values.setdefault(key, value)
    return values, "\n".join(lines[max(top) + 1 :])


def has_directives(content: str) -> bool:
    """Tell whether this text would be a check, evidence, view or backfill in a SQL fence."""
    return any(key in KNOWN for _, key, _ in _leading(content.split("\n")))


def is_directive(line: str) -> bool:
    """Tell whether a line has the form of a directive, known or unknown."""
    return _LINE.fullmatch(line) is not None


def mentions_directives(content: str) -> bool:
    """Tell whether any line of the text is a well-formed directive."""
    lines = content.split("\n")
    return any((match := _LINE.fullmatch(line)) and match["key"].lower() in KNOWN for line in lines)


def almost_directive(line: str, *, in_comment: bool = False) -> str | None:
    """Explain why a line resembles a directive but is ignored, with the correct form; None for other lines.

    >>> almost_directive("—— check: late-orders")
    '`—— check: late-orders` is not read: write `-- check: late-orders`'
    >>> almost_directive("-- check late-orders")
    '`-- check late-orders` is not read: write `-- check: late-orders`'
    >>> almost_directive("-- check that nobody writes"), almost_directive("-- check: late-orders")
    (None, None)
    """
    match = _ALMOST.fullmatch(line.strip())
    if not match or not (match["mark"] or in_comment):
        return None
    key, value = match["key"].lower(), match["value"].removesuffix("*/").strip()
    is_comment, colon = (match["mark"] or "").startswith("--"), match["colon"]
    if key in KNOWN:
        is_right = is_comment and colon == ":" and not match["around"]
        is_meant = not is_right and (_is_value_of(key, value) or (not is_comment and bool(colon)))
    else:
        key = next(iter(get_close_matches(key, [*KINDS, "require"], n=1, cutoff=0.75)), "")
        is_meant = bool(colon) and _is_value_of(key, value)
    return f"`{line.strip()}` is not read: write `-- {key}: {value}`" if is_meant else None


def _is_value_of(key: str, value: str) -> bool:
    """Tell whether a text is clearly a value of this directive: ids, or a criterion."""
    if key == "require":
        try:
            return bool(parse_requirement(value).comparisons)
        except RequirementError:
            return False
    return key in KINDS and all(is_id(each.strip()) for each in value.split(","))


def _leading(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield index, key and value of the directives before the SQL; comments and blank lines may separate them."""
    for index, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("--"):
            return
        if match := _LINE.fullmatch(line):
            key, value = match["key"].lower(), match["value"]
            # `-- https://…` is a comment; `-- check:late-orders` is clearly a directive.
            if key in KNOWN or not value or value[0].isspace():
                yield index, key, value.strip()


def _fault(key: str, value: str, before: dict[str, str]) -> str | None:
    if key not in KNOWN:
        advice = (
            f"the directives are {', '.join(KNOWN)}; a comment here must not begin with a word and a colon"
        )
        if close := get_close_matches(key, KNOWN, n=1):
            advice = f"did you mean `-- {close[0]}:`?"
        return f"unknown directive `-- {key}:`: {advice}"
    if key in before:
        advice = "join the two with `and`" if key == "require" else "keep one of them"
        return f"`-- {key}:` appears twice in one block: {advice}"
    return None if value else f"`-- {key}:` has no value: write it on the same line"


# Time span in a check's SQL: `-- window: 24 hours`, and `again: …, over `48 hours``.


FORM = "a number and a unit (seconds, minutes, hours or days), as 24 hours"

_LENGTH = re.compile(r"[1-9][0-9]{0,5} (?:second|minute|hour|day)s?")


def is_length(text: str) -> bool:
    """
    >>> is_length("24 hours"), is_length("1 day"), is_length("24h"), is_length("a day")
    (True, True, False, False)
    """
    return _LENGTH.fullmatch(text) is not None


def stands_in(sql: str, length: str, dialect: str | None) -> bool:
    """Tell whether a literal of the SQL contains this time span.

    >>> stands_in("SELECT now() - interval '24 hours' -- 2 days", "24 hours", None)
    True
    >>> stands_in("SELECT now() - interval '124 hours'", "24 hours", None)
    False
    """
    return any(_pattern(length).search(token.text) for token in _literals(sql, dialect))


def with_length(sql: str, length: str, other: str, dialect: str | None) -> str:
    """Replace a time span inside the literals of the SQL only.

    >>> with_length("SELECT julianday('now', '-24 hours') -- 24 hours", "24 hours", "2 days", "sqlite")
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
