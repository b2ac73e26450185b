"""SQL tokens: count statements and find words outside strings and comments.

The engines read some characters differently: dollar quotes, `E''`, nested comments, `[names]`.
One statement for one engine could be two for the other, so every function takes the engine.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from pipestate.runbook.model import DIALECTS

Kind = Literal["word", "name", "string", "number", "symbol", "unclosed"]

# Both engines treat every character beyond ASCII as a letter, even a no-break space. The patterns therefore
# exclude the other characters, which also compiles faster than a class of a million characters.
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
_NESTED = {"postgresql": True, "sqlite": False}  # whether comments nest
# SQL without these characters has the same tokens on both engines, so one scan serves both.
_DIFFERENT = re.compile(r"[$`\[]|/\*|[eE]'|[uU]&")
_OTHERWISE: dict[str, Kind] = {
    "escaped": "string",
    "dollar": "string",
    "other_name": "name",
    "open": "unclosed",
}


class Token(NamedTuple):
    """A piece of SQL other than whitespace and comments; `start` is its offset.

    It is a named tuple for speed: a runbook has tens of thousands of tokens.
    """

    kind: Kind
    text: str
    start: int

    @property
    def keyword(self) -> str:
        """Return a bare word in capitals; the empty string for other tokens."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """Return a name as the server reads it: a bare word in lower case, a quoted one without quotes."""
        if self.kind != "name":
            return self.text.lower() if self.kind == "word" else ""
        quote = self.text[-1]
        return self.text[1:-1].replace(quote * 2, quote)

    @property
    def identifier(self) -> str:
        """Return a name in lower case, quoted or not; the empty string for other tokens."""
        return self.name.lower()


def tokens(sql: str, dialect: str | None) -> list[Token]:
    """Tokenize SQL for an engine; PostgreSQL is the default."""
    return list(_seen(sql, dialect if dialect in _PATTERNS and _DIFFERENT.search(sql) else "postgresql"))


@lru_cache(maxsize=512)
def _seen(sql: str, dialect: str) -> tuple[Token, ...]:
    """Scan the SQL once: every lint rule reads the same blocks."""
    return tuple(_scan(sql, dialect))


def statements(tokens: list[Token]) -> list[list[Token]]:
    """Split the tokens at semicolons, and drop empty statements."""
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token.text == ";":
            found.append([])
        else:
            found[-1].append(token)
    return [statement for statement in found if statement]


def without_semicolon(sql: str, dialect: str | None) -> str:
    """Strip the final semicolon, so that the statement can be embedded in another one."""
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
            if group not in ("gap", "comment"):
                yield Token(_OTHERWISE.get(group, group), sql[start:position], start)  # type: ignore[arg-type]
            elif group == "comment":
                end = _comment_end(sql, start, nested=_NESTED[dialect])
                position = end or len(sql)
                if end is None:
                    yield Token("unclosed", sql[start:], start)
                break


def _comment_end(sql: str, start: int, *, nested: bool) -> int | None:
    """Return the end of a comment, or None if it is unclosed. Comments nest on PostgreSQL only."""
    depth = 0
    for mark in re.compile(r"/\*|\*/").finditer(sql, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0 or (not nested and mark.group() == "*/"):
            return mark.end()
    return None


# Check that a block is exactly one plain read.
#
# Lint filters; the read-only transaction and a role limited to SELECT guarantee. A READ ONLY transaction
# still permits `pg_terminate_backend`, advisory locks, `COPY … TO PROGRAM`, and a second statement after a
# COMMIT. Lint reports these to the author before a server runs them.


READS = ("SELECT", "WITH", "VALUES", "TABLE")
WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE")
LOCKS = re.compile(r"\bFOR (UPDATE|SHARE|KEY SHARE|NO KEY UPDATE)\b")
UNKNOWN = {("sqlite", "TABLE"): "SQLite has no TABLE statement: write SELECT * FROM"}
ENGINES = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}

# Functions that modify data, wait, reach outside the database, or run SQL passed as text.
EFFECTS = re.compile(
    r"""
    nextval | setval | lo_\w+ | lowrite | set_config | setseed
  | pg_(terminate|cancel)_backend | pg_(try_)?advisory_\w+ | pg_notify | pg_sleep\w*
  | pg_switch_(wal|xlog) | pg_reload_conf | pg_rotate_logfile\w* | pg_promote | pg_log_\w+
  | pg_wal_replay_(pause|resume) | pg_xlog_replay_\w+ | pg_(start|stop)_backup | pg_backup_(start|stop)
  | pg_create_\w+ | pg_drop_\w+ | pg_copy_\w+ | pg_replication_\w+ | pg_logical_\w+ | pg_sync_\w+
  | pg_export_snapshot | txid_current | pg_current_xact_id | pg_import_\w+
  | pg_stat_(reset\w*|statements_reset|force_\w+) | pg_(restore|clear)_\w+_stats
  | pg_read_(binary_)?file\w* | pg_stat_file | pg_ls_\w+ | pg_file_\w+ | pg_prewarm | autoprewarm_\w+
  | brin_(de)?summarize_\w+ | gin_clean_pending_list | pg_truncate_visibility_map | heap_force_\w+
  | pg_nextoid | pg_stop_making_pinned_objects | pg_extension_config_dump | binary_upgrade_\w+
  | dblink\w* | query_to_xml\w* | cursor_to_xml\w* | ts_stat | ts_rewrite
  | crosstab\w* | connectby | xpath_table
  | load_extension | writefile | readfile | edit | eval | fts3_tokenizer
    """,
    re.VERBOSE,
)


def objections(sql: str, dialect: str | None) -> list[str]:
    """List the reasons why a block is more than one plain read, each with a fix.

    A block without a dialect runs on both engines, so it must be a plain read on both.
    """
    if dialect in DIALECTS:
        return list(dict.fromkeys(_objections(sql, dialect)))
    heard: dict[str, list[str]] = {}
    for engine in DIALECTS:
        for message in dict.fromkeys(_objections(sql, engine)):
            heard.setdefault(message, []).append(ENGINES[engine])
    return [
        message if len(engines) == len(DIALECTS) else f"{message} (as {engines[0]} reads it)"
        for message, engines in heard.items()
    ]


def explains(sql: str, dialect: str | None) -> bool:
    """Tell whether the statement is an EXPLAIN; other statements cannot select from it."""
    return next((token.keyword for token in tokens(sql, dialect)), "") == "EXPLAIN"


def miscounted(seen: list[Token], what: str, block: str) -> str | None:
    """Explain why these tokens are not exactly one statement; None if they are."""
    number = len(statements(seen))
    if seen and seen[-1].kind == "unclosed":
        return f"a quote or a comment is never closed, from {seen[-1].text[:20]!r} on: close it"
    if not number:
        return f"there is no SQL in the block: write the {what} below the directives"
    return f"{number} statements in one block: a {block} is exactly one, split it" if number > 1 else None


def _objections(sql: str, dialect: str) -> Iterator[str]:
    seen = tokens(sql, dialect)
    found = statements(seen)
    if fault := miscounted(seen, "query", "block"):
        yield fault
    elif beginning := list(_begins_with_a_read(found[0], dialect)):
        yield from beginning
    else:
        yield from _does_not_write(found[0])
        yield from _hides_nothing(found[0])


def _begins_with_a_read(statement: list[Token], dialect: str) -> Iterator[str]:
    first = statement[0].keyword
    rest = _explained(statement) if first == "EXPLAIN" else statement
    begin = next((token for token in rest if token.text != "("), None)
    word = begin.keyword if begin else ""
    if begin and begin.text == "\\":
        return
    if unknown := UNKNOWN.get((dialect, word)):
        yield unknown
    elif word not in READS:
        advice = "begin with SELECT, WITH or VALUES"
        if word == "PRAGMA":
            advice = "read it as a table, SELECT … FROM pragma_table_info('orders')"
        elif first == "EXPLAIN":
            advice = "EXPLAIN a SELECT, and without ANALYZE, which runs it"
        shown = (begin or statement[0]).text
        prefix = "EXPLAIN " if begin and begin is not statement[0] and first == "EXPLAIN" else ""
        yield f"begins with {prefix}{shown}, not with a plain read: {advice}"


def _explained(statement: list[Token]) -> list[Token]:
    """Return the statement under an EXPLAIN without options; ANALYZE stays, because it runs the statement."""
    rest = statement[1:]
    if len(rest) > 1 and rest[0].text == "(" and rest[1].keyword not in READS and rest[1].text != "(":
        end = next((index for index, token in enumerate(rest) if token.text == ")"), len(rest))
        runs = [token for token in rest[:end] if token.identifier in ("analyze", "analyse")]
        return runs or rest[end + 1 :]
    while rest and rest[0].keyword in ("VERBOSE", "QUERY", "PLAN"):
        rest = rest[1:]
    return rest


def _does_not_write(statement: list[Token]) -> Iterator[str]:
    if LOCKS.search(" ".join(token.keyword or "?" for token in statement)):
        yield "locks rows with FOR UPDATE or FOR SHARE, which is a write: take the clause out"
        return
    words = {after.keyword: None for before, after in pairwise(statement) if before.text != "."}
    writes = [word for word in words if word in WRITES]
    for word in writes:
        yield f"holds {word}, and a check only reads: take it out (a column of that name goes in quotes)"
    if "INTO" in words and not writes:
        yield "writes INTO a table: a check only reads, take INTO out"


def _hides_nothing(statement: list[Token]) -> Iterator[str]:
    """Refuse calls with effects, psql commands, and forms that hide their meaning from a check of words."""
    if any(token.text == "\\" for token in statement):
        yield "a backslash outside quotes begins a psql command: a block is SQL alone, take it out"
    if any(token.kind == "name" and token.text[0] in "uU" for token in statement):
        yield 'a name in U&"…" cannot be checked: write the plain name'
    for one, other in pairwise(statement):
        if other.text == "(" and EFFECTS.fullmatch(one.identifier):
            yield f"calls {one.identifier}(), which does more than read: take the call out"
        if one.text[:2] in ("E'", "e'") and other.kind == "string":
            yield "a second string literal continues E'…', with its escapes: write one literal"
