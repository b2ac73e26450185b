"""From figures to a verdict: what is over the limit, why, and what to write instead."""

import re
from collections.abc import Iterator, Sequence

from pipestate.rehearse.felt import MOST_SCALED, LimitVerdict, OverLimit, RevisionFelt, TableFelt
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
ROWS = re.compile(r"(?is)^\s*(with\b.*)?\b(update|delete|insert|merge)\b")

UNBOUNDED = (
    "asks for ACCESS EXCLUSIVE without a lock_timeout: behind one long transaction everybody waits for its end",
    "pipestate.ddl.lock_tables(...) first: it asks briefly, again and again",
)
TOO_PATIENT = (
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
REWRITE = (
    "rewrites the table under its lock",
    "a new column with pipestate.ddl.add_columns, a backfill, and a Contract for the old one",
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


def verdict(figure_ms: float, limit_ms: float) -> LimitVerdict:
    """Compare an estimate with a limit.

    >>> [str(verdict(figure, 500)) for figure in (249, 250, 1000, 1001)]
    ['within', 'too close', 'too close', 'over']
    """
    if figure_ms < limit_ms / 2:
        return LimitVerdict.WITHIN
    return LimitVerdict.OVER if figure_ms > limit_ms * 2 else LimitVerdict.TOO_CLOSE


def judge(revisions: Sequence[RevisionFelt], limit_ms: float, noise_floor_ms: float) -> tuple[OverLimit, ...]:
    """List what is over the limit or too close to it; what cannot be told from noise is neither."""
    return tuple(
        finding
        for revision in revisions
        for table in revision.tables
        for finding in _findings(table, limit_ms, noise_floor_ms)
    )


def judge_file(revisions: Sequence[RevisionFelt], limit_ms: float) -> tuple[OverLimit, ...]:
    """SQLite: whoever writes waits until a revision is over."""
    judged = ((revision, verdict(revision.duration_ms, limit_ms)) for revision in revisions)
    return tuple(
        OverLimit(revision.revision, "the file", _source(revision), *FILE, found)
        for revision, found in judged
        if found is not LimitVerdict.WITHIN
    )


def _source(revision: RevisionFelt) -> str:
    return (revision.slowest.source if revision.slowest else None) or revision.path


def _findings(table: TableFelt, limit_ms: float, noise_floor_ms: float) -> Iterator[OverLimit]:
    if table.bounded is False:
        yield _finding(table, table.taken_by, UNBOUNDED, LimitVerdict.OVER)
    elif table.patience_ms > limit_ms:
        yield _finding(table, table.taken_by, TOO_PATIENT, LimitVerdict.OVER)
    found = verdict(table.stall_ms * (table.scale or 1.0), limit_ms)
    noise = table.stall_ms < noise_floor_ms and found is not LimitVerdict.OVER
    if table.scale is None and found is not LimitVerdict.OVER:
        if table.is_in_the_way:
            yield _finding(table, table.taken_by, BEYOND, LimitVerdict.UNKNOWN)
    elif found is not LimitVerdict.WITHIN and not noise:
        yield _finding(table, table.spent_by or table.taken_by, _cause(table), found)


def _cause(table: TableFelt) -> tuple[str, str]:
    if _is_kept_for_later(table):
        return LATER
    if table.rewritten:
        return REWRITE
    sql = table.spent_by.sql if table.spent_by else ""
    return next(((what, instead) for pattern, what, instead in CAUSES if pattern.search(sql)), OTHER)


def _is_kept_for_later(table: TableFelt) -> bool:
    taken, spent = table.taken_by, table.spent_by
    if taken is None or spent is None:
        return False
    return spent.revision != table.revision and spent.start >= taken.end


def _finding(
    table: TableFelt, by: Statement | None, words: tuple[str, str], found: LimitVerdict
) -> OverLimit:
    source = (by.source if by else None) or ""
    return OverLimit(table.revision, table.table, source, *words, found)
