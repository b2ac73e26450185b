"""Findings: figures over the limit, their causes, and the replacement to write."""

import re
from collections.abc import Iterator, Sequence

from pipestate.rehearse.impact import MOST_SCALED, LimitFinding, LimitVerdict, RevisionImpact, TableImpact
from pipestate.rehearse.trace import Statement

INDEX = re.compile(r"(?is)^\s*create\s+(unique\s+)?index\s+(?!concurrently\b)")
NAME = r'("[^"]+"|\S+)'
CONSTRAINT = re.compile(
    rf"(?is)\badd\s+(constraint\s+{NAME}\s+)?(check|foreign\s+key)\b(?!.*\bnot\s+valid\b)"
)
UNIQUE = re.compile(
    rf"(?is)\badd\s+(constraint\s+{NAME}\s+)?(unique|primary\s+key|exclude)\b(?!\s*using\s+index\b)"
)
NOT_NULL = re.compile(r"(?is)\balter\s+(column\s+)?\S+\s+set\s+not\s+null\b")
VALIDATE = re.compile(r"(?is)\bvalidate\s+constraint\b")
NEW_TYPE = re.compile(r"(?is)\balter\s+(column\s+)?\S+\s+(set\s+data\s+)?type\b")
NEW_COLUMN = re.compile(
    r"(?is)\badd\s+(column\b|(?!(constraint|check|foreign|unique|primary|exclude|not|table)\b)[\w\"])"
)
ROWS = re.compile(r"(?is)^\s*(with\b.*)?\b(update|delete|insert|merge)\b")

UNBOUNDED = (
    "asks for ACCESS EXCLUSIVE without a lock_timeout: behind one long transaction everybody waits for its end",
    "pipestate.ddl.lock_tables(...) first: it asks briefly, again and again",
)
LONG_TIMEOUT = (
    "asks for ACCESS EXCLUSIVE with a lock_timeout above the limit: so long everybody may wait behind it",
    UNBOUNDED[1],
)
CAUSES = (
    (INDEX, "builds an index under a lock that stops writers", "pipestate.ddl.create_index (CONCURRENTLY)"),
    (
        CONSTRAINT,
        "validates a constraint under its lock",
        "pipestate.ddl.add_checks or add_foreign_key: NOT VALID first, then VALIDATE",
    ),
    (
        UNIQUE,
        "builds the index of a constraint under its lock",
        "pipestate.ddl.create_index(..., unique=True), then ADD CONSTRAINT … USING INDEX",
    ),
    (
        NOT_NULL,
        "reads the whole table under its lock for NOT NULL",
        "pipestate.ddl.add_checks with `… IS NOT NULL` before it",
    ),
    (
        VALIDATE,
        "validates a constraint in the transaction that holds a stronger lock",
        "pipestate.ddl.add_checks or add_foreign_key, which validate in a transaction of their own",
    ),
    (
        ROWS,
        "writes many rows in one transaction",
        "a `-- backfill:` block and `pipestate backfill`, or pipestate.ddl.update_in_batches",
    ),
)
REWRITES = (
    (
        NEW_TYPE,
        "rewrites the table under its lock",
        "a new column with pipestate.ddl.add_columns, a backfill, and a Contract for the old one",
    ),
    (
        NEW_COLUMN,
        "rewrites the table under its lock, to compute the new column for each row",
        "the column without its default, then ALTER COLUMN … SET DEFAULT, then a backfill of the rows that are there",
    ),
    (
        re.compile(""),
        "rewrites the table under its lock",
        "a new column and a backfill, or a time when nobody needs the table",
    ),
)
OTHER = (
    "runs while the lock is held",
    "a revision of its own, and transaction_per_migration=True in env.py",
)
LATER = (
    "keeps its lock while a later revision runs",
    "transaction_per_migration=True in env.py: then each revision ends with its locks",
)
BEYOND = (
    f"locks a table of which production has more than {MOST_SCALED:.0f} times the rows: its time there is a guess",
    "rehearse on a clone with at least a tenth of production's rows",
)
FILE = ("locks the whole file until it is over", "smaller revisions, or a time when nobody writes")

WORTH_TELLING = 10  # statements with a smaller fraction of the wait are not listed


def verdict(figure_ms: float, limit_ms: float) -> LimitVerdict:
    """Compare an estimate with a limit.

    >>> [str(verdict(figure, 500)) for figure in (249, 250, 1000, 1001)]
    ['within', 'too close', 'too close', 'over']
    """
    if figure_ms < limit_ms / 2:
        return LimitVerdict.WITHIN
    return LimitVerdict.OVER if figure_ms > limit_ms * 2 else LimitVerdict.TOO_CLOSE


def judge(
    revisions: Sequence[RevisionImpact], limit_ms: float, noise_floor_ms: float
) -> tuple[LimitFinding, ...]:
    """List figures over the limit or too close to it; noise is neither."""
    found = (
        finding
        for revision in revisions
        for table in revision.tables
        for finding in _findings(table, limit_ms, noise_floor_ms)
    )
    return tuple(dict.fromkeys(found))


def judge_file(revisions: Sequence[RevisionImpact], limit_ms: float) -> tuple[LimitFinding, ...]:
    """Judge SQLite: writers wait until a revision is over."""
    judged = ((revision, verdict(revision.duration_ms, limit_ms)) for revision in revisions)
    return tuple(
        LimitFinding(revision.revision, "the file", _source(revision), *FILE, found)
        for revision, found in judged
        if found is not LimitVerdict.WITHIN
    )


def _source(revision: RevisionImpact) -> str:
    return (revision.slowest.source if revision.slowest else None) or revision.path


def _findings(table: TableImpact, limit_ms: float, noise_floor_ms: float) -> Iterator[LimitFinding]:
    if table.bounded is False:
        yield _finding(table, table.taken_by, UNBOUNDED, LimitVerdict.OVER)
    elif table.patience_ms > limit_ms:
        yield _finding(table, table.taken_by, LONG_TIMEOUT, LimitVerdict.OVER)
    found = verdict(table.stall_ms * (table.scale or 1.0), limit_ms)
    noise = table.stall_ms < noise_floor_ms and found is not LimitVerdict.OVER
    if table.scale is None and found is not LimitVerdict.OVER:
        if table.is_in_the_way:
            yield _finding(table, table.taken_by, BEYOND, LimitVerdict.UNKNOWN)
    elif found is not LimitVerdict.WITHIN and not noise:
        main = table.spent_by or table.taken_by
        yield _finding(
            table, main, LATER if _is_kept_for_later(table) else _cause(table, main) or OTHER, found
        )
        for statement in table.statements:
            cause = _cause(table, statement)
            is_long = statement.duration_ms >= max(table.stall_ms / WORTH_TELLING, noise_floor_ms)
            if statement != main and cause is not None and is_long:
                yield _finding(table, statement, cause, found)


def _cause(table: TableImpact, statement: Statement | None) -> tuple[str, str] | None:
    """Find the slow operation of a statement under a lock; None for any other statement."""
    sql = statement.sql if statement else ""
    rewrites = table.rewritten and statement == (table.rewritten_by or table.spent_by)
    causes = REWRITES if rewrites else CAUSES
    return next(((what, instead) for pattern, what, instead in causes if pattern.search(sql)), None)


def _is_kept_for_later(table: TableImpact) -> bool:
    taken, spent = table.taken_by, table.spent_by
    if taken is None or spent is None:
        return False
    return spent.revision != table.revision and spent.start >= taken.end


def _finding(
    table: TableImpact, by: Statement | None, words: tuple[str, str], found: LimitVerdict
) -> LimitFinding:
    source = (by.source if by else None) or ""
    return LimitFinding(table.revision, table.table, source, *words, found)
