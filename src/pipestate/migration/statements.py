"""Statements of a revision: their kind, and the line on stderr that names a long one."""

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

from pipestate.core.text import plain
from pipestate.runbook.statement import statements, tokens


class StatementKind(Enum):
    """The guard's treatment of a statement."""

    COMMIT = auto()  # ends the transaction and keeps its work
    ROLLBACK = auto()  # ends the transaction and undoes its work
    BEGIN = auto()
    SETTING = auto()  # settings and savepoints: neither a loss nor a lock
    FREE = auto()  # must run outside a transaction, and loses nothing
    STRONG = auto()  # DDL that makes other sessions wait
    OTHER = auto()


COMMITS = (
    "calls code that commits by itself, so that a loss could not be undone: run it in an autocommit_block() "
    "with "
    '-x force="reason", or outside the migration'
)
# After any of these a later statement of the same text would run outside the guard's transaction.
_MAY_END = re.compile(
    r"(?i);\s*(?:--[^\n]*\s*|/\*.*?\*/\s*)*(commit|end|rollback|abort|prepare)\b", re.DOTALL
)
_FIRST_WORD = re.compile(r"(?:\s|;|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)
_FREE = re.compile(
    r"CREATE (UNIQUE )?INDEX CONCURRENTLY|DROP INDEX CONCURRENTLY|REINDEX|VACUUM|REFRESH|ANALYZE|CHECKPOINT"
    r"|ALTER TYPE .*ADD VALUE|ALTER TABLE .* DETACH PARTITION .*(CONCURRENTLY|FINALIZE)$"
    r"|CREATE (DATABASE|TABLESPACE|SUBSCRIPTION)|DROP SUBSCRIPTION|ALTER SYSTEM"
)
_CONTROL = {
    **dict.fromkeys(("COMMIT", "END"), StatementKind.COMMIT),
    **dict.fromkeys(("ABORT",), StatementKind.ROLLBACK),
    **dict.fromkeys(("BEGIN", "START"), StatementKind.BEGIN),
    **dict.fromkeys(("SET", "RESET", "SHOW", "SAVEPOINT", "RELEASE", "PRAGMA"), StatementKind.SETTING),
    **dict.fromkeys(("LISTEN", "UNLISTEN", "NOTIFY", "DISCARD"), StatementKind.SETTING),
}
_DROPS_TABLE = re.compile(r"(?i)\bDROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?([^;\n]+)")
_CREATES_FIRST = re.compile(r"(?is)\bCREATE\b.*\bDROP\s+TABLE\b")
_OTHER_DROPS = (
    "TABLE|CONSTRAINT|INDEX|VIEW|MATERIALIZED|SCHEMA|TRIGGER|EVENT|FUNCTION|PROCEDURE|ROUTINE|SEQUENCE|TYPE|DOMAIN|NOT|"
    "DEFAULT|IDENTITY|EXPRESSION|POLICY|RULE|EXTENSION|ROLE|OWNED|CAST|STATISTICS|PUBLICATION|ATTRIBUTE"
)
_DROPS_COLUMN = re.compile(
    rf'(?i)\bDROP\s+(?!(?:{_OTHER_DROPS})\b)(?:COLUMN\s+)?(?:IF\s+EXISTS\s+)?("(?:[^"]|"")+"|\w+)'
)
_ALTERS_TABLE = re.compile(r"(?i)\bALTER\s+TABLE\s+(?:IF\s+EXISTS\s+)?(?:ONLY\s+)?([^\s;]+)")
_FILLS_FIRST = re.compile(r"(?is)\bUPDATE\b.*\bDROP\b")
_NAMES = re.compile(r'"((?:[^"]|"")+)"|(\w+)')
_READING = ("SHOW", "SET", "PRAGMA", "VALUES", "SAVEPOINT", "RELEASE")
# A query writes by INTO, by EXPLAIN ANALYZE, or in a function that the server does not have itself.
_KEYWORDS = "all|and|any|array|as|by|cast|distinct|exists|extract|filter|from|in|join|lateral|not|on|or|over|select|values|where"
_FUNCTIONS = (
    "avg|coalesce|count|max|min|now|nullif|string_agg|sum|unnest|upper|lower|current_setting|to_regclass"
)
_WRITING = re.compile(
    rf'(?is)\binto\b|\banalyze\b|(?<![\w".])(?!(?:pg_catalog\.\w+|{_KEYWORDS}|{_FUNCTIONS})\s*\()[\w".]+\s*\('
)
_STRONG = re.compile(
    r"ALTER|DROP|TRUNCATE|LOCK|CLUSTER|CREATE (UNIQUE )?INDEX|CREATE (OR REPLACE )?(CONSTRAINT )?TRIGGER"
    r"|CREATE (OR REPLACE )?(RULE|VIEW)|CREATE POLICY|CREATE .*\b(REFERENCES|PARTITION OF|INHERITS)\b"
)
_HAS_TABLE_LOCKS = {"postgresql": True}  # and takes several statements in one text
_BLOCK = re.compile(r"(?i)\b(ALTER|DROP|TRUNCATE|LOCK)\s+\w")
_ROWS = re.compile(r"(?i)\b(INSERT|UPDATE|DELETE|MERGE|COPY|lock_timeout)\b")


def kind_of(text: str, dialect: str) -> StatementKind:
    """Classify a text; if it holds several statements, the most dangerous one counts.

    >>> kind_of("CREATE INDEX CONCURRENTLY i ON t (a)", "postgresql").name
    'FREE'
    >>> kind_of("DROP TABLE t /* CONCURRENTLY */", "postgresql").name
    'STRONG'
    >>> kind_of("UPDATE t SET a = 'DROP TABLE t; COMMIT'", "postgresql").name
    'OTHER'
    """
    word = first_word(text)
    several = ";" in text.rstrip("; \t\r\n")
    if word in ("INSERT", "UPDATE", "DELETE", "SELECT", "WITH", "COPY", "VALUES", "MERGE") and not several:
        return StatementKind.OTHER
    kinds = [_kind_of_one(" ".join(words), dialect) for words in _keywords(text, dialect)]
    if word == "DO" and len(kinds) == 1:
        return StatementKind.STRONG if _BLOCK.search(text) and not _ROWS.search(text) else StatementKind.OTHER
    if len(kinds) == 1:
        return kinds[0]
    # A server runs several statements as one transaction: free and strong ones are treated alike.
    return (
        StatementKind.OTHER
        if any(kind is not StatementKind.SETTING for kind in kinds)
        else StatementKind.SETTING
    )


def ends_in_the_middle(text: str, dialect: str) -> bool:
    """Say whether a text of several statements ends the transaction: its work could not be undone.

    >>> ends_in_the_middle("DROP TABLE t; COMMIT", "postgresql")
    True
    >>> ends_in_the_middle("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END", "postgresql")
    False
    """
    starts = first_word(text) in ("COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE")
    if dialect not in _HAS_TABLE_LOCKS or not (starts or _MAY_END.search(text)):
        return False
    parts = [" ".join(words) for words in _keywords(text, dialect)]
    ending = (StatementKind.COMMIT, StatementKind.ROLLBACK)
    ends = sum(_kind_of_one(words, dialect) in ending for words in parts)
    return len(parts) > 1 and ends > sum(words.count("BEGIN ATOMIC") for words in parts)


def may_lose(code: str) -> bool:
    """Say whether the text of a block or procedure has a word that a loss needs.

    EXECUTE may build such a word, except in a block that pipestate's own helpers have written.
    """
    words = "drop|truncate|alter" if "pipestate." in code else "drop|truncate|alter|execute"
    return bool(re.search(rf"(?i)\b({words})\b", code))


def first_word(text: str) -> str:
    """Return the first word of a text in capitals, behind its comments.

    >>> first_word("-- the old one\\nDROP DATABASE shop")
    'DROP'
    """
    found = _FIRST_WORD.match(text)
    return found[1].upper() if found else ""


def only_reads(text: str) -> bool:
    """Say whether a statement surely writes nothing.

    >>> [only_reads(text) for text in ("SELECT count(*) FROM t WHERE a IN (1)", "SELECT 1 INTO t", "SELECT tidy_up()")]
    [True, False, False]
    """
    word = first_word(text)
    return word in _READING or (word in ("SELECT", "EXPLAIN") and not _WRITING.search(text))


def names_beside_drop(text: str) -> tuple[set[str], bool]:
    """Return the names in a text that drops a table, and whether it creates something before.

    >>> names_beside_drop("DROP TABLE Items")
    ({'items'}, False)
    """
    names = _names(" ".join(_DROPS_TABLE.findall(text)))
    return names, bool(names and _CREATES_FIRST.search(text))


def columns_in_drop(text: str) -> tuple[set[str], set[str], bool]:
    """Return the tables in a text that drops columns, the names after DROP, and whether it writes rows before.

    >>> columns_in_drop('ALTER TABLE ONLY sales.Items DROP COLUMN "Note"') == ({"sales", "items"}, {"Note"}, False)
    True
    """
    tables = _names(" ".join(_ALTERS_TABLE.findall(text)))
    dropped = _names(" ".join(_DROPS_COLUMN.findall(text))) if tables else set()
    return (tables if dropped else set()), dropped, bool(dropped and _FILLS_FIRST.search(text))


def _names(text: str) -> set[str]:
    return {quoted.replace('""', '"') or bare.lower() for quoted, bare in _NAMES.findall(text)}


def cast_by_hand(texts: list[str]) -> bool:
    """Say whether a statement changes a type with a custom expression."""
    return any(re.search(r"(?i)\bUSING\b", text) for text in texts)


def _keywords(text: str, dialect: str) -> list[list[str]]:
    """Return the words of each statement in capitals; names in quotes and strings are a placeholder."""
    return [
        [token.keyword or "?" for token in statement] for statement in statements(tokens(text, dialect))
    ] or [[]]


def _kind_of_one(words: str, dialect: str) -> StatementKind:
    first, _, rest = words.partition(" ")
    if first == "ROLLBACK":
        return StatementKind.SETTING if " TO " in f" {rest} " else StatementKind.ROLLBACK
    if first == "PREPARE" and rest.startswith("TRANSACTION"):
        return StatementKind.COMMIT
    if first in _CONTROL:
        return _CONTROL[first]
    if dialect not in _HAS_TABLE_LOCKS:
        return StatementKind.OTHER
    if _FREE.match(words):
        return StatementKind.FREE
    return StatementKind.STRONG if _STRONG.match(words) else StatementKind.OTHER


SAY_AFTER_S = 2.0
_NAME = r'((?:"[^"]+"|[\w.])+)'
# The work of a statement, by its text; the group captures the name.
_WORK = (
    (rf"CREATE (?:UNIQUE )?INDEX (?:CONCURRENTLY )?(?:IF NOT EXISTS )?{_NAME}", "building index {}"),
    (r"CALL \w+\.(?:refuse_rows|add_checks)\('([^']+)'", "checking the rows of {}"),
    (
        rf"CALL \w+\.validate_constraints\('([^']+)'|ALTER TABLE {_NAME} VALIDATE",
        "validating constraints of {}",
    ),
    (
        r"CALL pipestate\.validate_restored\([^,]+, '(?:table|columns)', '([^']+)'",
        "validating constraints of {}",
    ),
    (r"CALL pipestate\.fill\(()", "restoring rows that were written since the drop"),
    (rf"UPDATE {_NAME} AS s SET", "restoring rows of {}"),  # SQLite
)


@contextmanager
def say_when_long(statement: str) -> Iterator[None]:
    """Name the work of a statement on stderr if it takes longer than two seconds."""
    work = work_of(statement)
    if work is None:
        yield
        return
    line = f"still {plain(work)}"
    timer = threading.Timer(SAY_AFTER_S, lambda: print(line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def work_of(statement: str) -> str | None:
    """Name the long work of a statement.

    >>> work_of('CREATE UNIQUE INDEX CONCURRENTLY "a b" ON t (x)')
    'building index "a b"'
    >>> work_of("ALTER TABLE orders VALIDATE CONSTRAINT positive")
    'validating constraints of orders'
    >>> work_of("SELECT 1") is None
    True
    """
    for pattern, words in _WORK:
        if found := re.search(pattern, statement, re.DOTALL):
            return words.format(next(filter(None, found.groups()), ""))
    return None
