"""SQL as tokens: enough to count statements and to see words outside strings and comments.

The two engines read the same characters differently (dollar quotes, `E''`, nested comments, `[names]`),
and a block that is one statement to the one could be two to the other. So every function takes the
engine.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal["word", "name", "string", "number", "symbol", "unclosed"]

# To both engines every character beyond ASCII, even a no-break space, is a letter; so these say what is
# not one, which also compiles faster than a class of a million characters.
_LETTER = r"[^\x00-\x40\x5b-\x5e\x60\x7b-\x7f]"
_INSIDE = r"[^\x00-\x23\x25-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]"
_TAG = rf"(?:{_LETTER}(?:{_LETTER}|[0-9])*)?"
_COMMON = rf"""
    (?P<gap> --[^\n]* | \Z )
  | (?P<comment> /\* )
  | (?P<string> '(?:[^']|'')*+' )
  | (?P<name> "(?:[^"]|"")*+" )
  | (?P<number> [0-9]+ (?:\.[0-9]*)? (?:[eE][+-]?[0-9]+)? )
  | (?P<word> {_LETTER}{_INSIDE}* )
  | (?P<unclosed> ['"] .* )
  | (?P<symbol> . )
"""
_POSTGRESQL = rf"""
    (?P<escaped> [eE]'(?:[^'\\]|\\.|'')*+' )
  | (?P<dollar> \$(?P<tag>{_TAG})\$ .*? \$(?P=tag)\$ )
  | (?P<other_name> [uU]&"(?:[^"]|"")*+" )
  | (?P<open> [eE]' .* | \${_TAG}\$ .* )
"""
_SQLITE = r"""
    (?P<other_name> `(?:[^`]|``)*+` | \[[^\]]*\] )
  | (?P<open> [`\[] .* )
"""
_PATTERNS = {
    engine: re.compile(rf"[ \t\n\r\f\v]*+ (?: {own} | {_COMMON} )", re.VERBOSE | re.DOTALL)
    for engine, own in (("postgresql", _POSTGRESQL), ("sqlite", _SQLITE))
}
_NESTED = {"postgresql": True, "sqlite": False}  # a comment may stand inside a comment
# Where none of this stands, both engines see the same, and one scan serves both.
_DIFFERENT = re.compile(r"[$`\[]|/\*|[eE]'|[uU]&")
_KINDS: dict[str, Kind] = {
    "string": "string",
    "escaped": "string",
    "dollar": "string",
    "name": "name",
    "other_name": "name",
    "number": "number",
    "word": "word",
    "symbol": "symbol",
    "open": "unclosed",
    "unclosed": "unclosed",
}


class Token(NamedTuple):
    """A piece of SQL that is neither space nor comment; `start` is its offset.

    A named tuple, because a page has ten thousands of them and lint should be quick.
    """

    kind: Kind
    text: str
    start: int

    @property
    def keyword(self) -> str:
        """The word in capitals; nothing for what is not a bare word."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def identifier(self) -> str:
        """The name in lower case, whether quoted or not; nothing for what is not a name."""
        if self.kind == "word":
            return self.text.lower()
        if self.kind != "name":
            return ""
        quote = self.text[-1]
        return self.text[1:-1].replace(quote * 2, quote).lower()


def tokens(sql: str, dialect: str | None) -> list[Token]:
    """What the engine sees; without an engine, what PostgreSQL sees."""
    return list(_seen(sql, dialect if dialect in _PATTERNS and _DIFFERENT.search(sql) else "postgresql"))


@lru_cache(maxsize=512)
def _seen(sql: str, dialect: str) -> tuple[Token, ...]:
    """Scan it once: every rule of the lint looks at the same blocks."""
    return tuple(_scan(sql, dialect))


def statements(tokens: list[Token]) -> list[list[Token]]:
    """The statements between semicolons, empty ones left out."""
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == ";":
            found.append([])
        else:
            found[-1].append(token)
    return [statement for statement in found if statement]


def without_semicolon(sql: str, dialect: str | None) -> str:
    """The statement as written, without its end, so that it can stand inside another one."""
    end = len(sql)
    for token in reversed(tokens(sql, dialect)):
        if token.text != ";":
            break
        end = token.start
    return sql[:end].strip()


def _scan(sql: str, dialect: str) -> Iterator[Token]:
    pattern, position = _PATTERNS[dialect], 0
    while position < len(sql):
        for match in pattern.finditer(sql, position):
            group = match.lastgroup or ""
            start, position = match.span(group)
            if group in _KINDS:
                yield Token(_KINDS[group], sql[start:position], start)
            elif group == "comment":
                end = _comment_end(sql, start, nested=_NESTED[dialect])
                position = end or len(sql)
                if end is None:
                    yield Token("unclosed", sql[start:], start)
                break


def _comment_end(sql: str, start: int, *, nested: bool) -> int | None:
    """Where the comment ends, or None where it does not. PostgreSQL's comments nest, SQLite's do not."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(sql, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0 or (not nested and mark.group() == "*/"):
            return mark.end()
    return None
