"""The leading `-- key: value` lines of a fenced SQL block.

A block without any of our directives is prose. A block with one is ours entirely, and then a misspelt
line is an error: a check that is silently not run looks like a check that passes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from pipestate.runbook.finding import Findings
from pipestate.runbook.markdown import Fence

# What a block can be, and what else may stand in it then.
KINDS = {
    "check": ("require", "dialect", "level", "from", "until", "window"),
    "explains": ("dialect",),
    "view": ("dialect", "from", "until"),
    "backfill": ("table", "key", "dialect"),
}
# The same for a variant beside the page: everything else stands on the page.
VARIANT_KINDS: dict[str, tuple[str, ...]] = {
    "check": ("require",),
    "explains": (),
    "view": (),
    "backfill": (),
}
KNOWN = tuple(dict.fromkeys((*KINDS, *(key for keys in KINDS.values() for key in keys))))

_LINE = re.compile(r"\s*--+\s*(?P<key>[A-Za-z][\w-]*)\s*:(?P<value>.*)")


@dataclass(frozen=True, slots=True)
class Directives:
    """The values by key, and the SQL below them."""

    values: dict[str, str]
    sql: str


@dataclass(frozen=True, slots=True)
class _Directive:
    key: str
    value: str
    index: int


def read_directives(fence: Fence, found: Findings) -> Directives | None:
    """The directives of a block, or None where it is prose."""
    lines = fence.content.split("\n")
    top = list(_leading(lines))
    _report_late(lines, top, fence.line, found)
    if not any(directive.key in KNOWN for directive in top):
        return None
    sql = "\n".join(lines[top[-1].index + 1 :])
    return Directives(_values(top, fence.line, found), sql)


def has_directives(content: str) -> bool:
    """Tell whether this text would be a check, an evidence, a view or a backfill, if it stood in a SQL fence."""
    return any(directive.key in KNOWN for directive in _leading(content.split("\n")))


def mentions_directives(content: str) -> bool:
    """Tell whether any line of it is a directive as one writes it."""
    return any((match := _LINE.fullmatch(line)) and match["key"] in KNOWN for line in content.split("\n"))


def _leading(lines: list[str]) -> Iterator[_Directive]:
    """Those before the SQL; other comments and blank lines may stand between them."""
    for index, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("--"):
            return
        if directive := _directive(line, index):
            yield directive


def _directive(line: str, index: int) -> _Directive | None:
    match = _LINE.fullmatch(line)
    if not match:
        return None
    key, value = match["key"].lower(), match["value"]
    # `-- https://…` is a comment; `-- check:late-orders` is surely meant.
    if key not in KNOWN and value and not value[0].isspace():
        return None
    return _Directive(key, value.strip(), index)


def _report_late(lines: list[str], top: list[_Directive], at: int, found: Findings) -> None:
    """A directive below SQL is only a comment there, and its check would ask less than it says."""
    first = {directive.index for directive in top}
    for index, line in enumerate(lines):
        if index not in first and mentions_directives(line):
            found.add(at, f"`{line.strip()}` stands below SQL: directives go to the top of the block")


def _values(directives: list[_Directive], at: int, found: Findings) -> dict[str, str]:
    values: dict[str, str] = {}
    for key, value in ((directive.key, directive.value) for directive in directives):
        if key not in KNOWN:
            found.add(at, _unknown(key))
        elif key in values:
            advice = "join the two with `and`" if key == "require" else "keep one of them"
            found.add(at, f"`-- {key}:` stands twice in one block: {advice}")
        elif not value:
            found.add(at, f"`-- {key}:` says nothing: write its value on the same line")
        if key in KNOWN:
            values.setdefault(key, value)
    return values


def _unknown(key: str) -> str:
    close = get_close_matches(key, KNOWN, n=1)
    if close:
        return f"unknown directive `-- {key}:`: did you mean `-- {close[0]}:`?"
    return (
        f"unknown directive `-- {key}:`: the directives are {', '.join(KNOWN)}; "
        "a comment in such a block must not begin with a word and a colon"
    )
