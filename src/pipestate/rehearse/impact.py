"""Impact of a rehearsal: locks and waits of each revision and table, and the findings over a limit."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from pipestate.rehearse.child_process import Failure, GateOutcome, Statement
from pipestate.rehearse.writes import Writes

# Lock modes, from the weakest to the strongest.
MODES = (
    *("RowShareLock", "RowExclusiveLock", "ShareUpdateExclusiveLock", "ShareLock"),
    *("ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock"),
)
STRONGEST = MODES[-1]
MEASURABLE_FACTOR = 5
READER_MS = 2000.0  # how long a reader blocks the migration's request
MOST_SCALED = 10.0  # beyond this ratio of rows, times are not estimated


def spelt(mode: str) -> str:
    """Write a mode as SQL does.

    >>> spelt("AccessExclusiveLock"), spelt("ShareLock")
    ('ACCESS EXCLUSIVE', 'SHARE')
    """
    words = "".join(f" {letter}" if letter.isupper() else letter for letter in mode.removesuffix("Lock"))
    return words.strip().upper()


class LimitVerdict(StrEnum):
    """An estimate compared with a limit: near the limit the answer is open."""

    WITHIN = "within"
    TOO_CLOSE = "too close"
    UNKNOWN = "unknown"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class LockEncounter:
    """A request for ACCESS EXCLUSIVE at a blocking reader: it gave up, or still waited after two seconds.

    `by` is the requesting statement; None if it failed.
    """

    revision: str
    table: str
    gave_up: bool
    waited_ms: float
    at: float = 0.0
    by: Statement | None = None


@dataclass(frozen=True, slots=True)
class TableImpact:
    """The impact of one revision on one table. Times are milliseconds on the clone, None if not measured."""

    revision: str
    table: str
    rows: int
    bytes: int
    modes: tuple[str, ...]  # the strongest first
    rewritten: bool = False
    taken_by: Statement | None = None
    spent_by: Statement | None = None
    never_gives_up: bool = False
    lock_timeout_ms: float | None = None
    held_ms: float = 0.0
    writer_ms: float | None = 0.0
    reader_ms: float | None = 0.0
    rows_ms: float | None = 0.0
    encounter: LockEncounter | None = None
    production_rows: int | None = None
    oldest_s: float | None = None  # the age of production's oldest transaction on it
    rewritten_by: Statement | None = None
    statements: tuple[Statement, ...] = ()  # of the revision, while the table was locked

    @property
    def wait_ms(self) -> float:
        """The longest wait; for a table without probes, the time for which the lock was held."""
        measured = [each for each in (self.writer_ms, self.reader_ms, self.rows_ms) if each is not None]
        return max(measured) if self.writer_ms is not None else max([self.held_ms, *measured])

    @property
    def scale(self) -> float | None:
        """The factor to production's time, by rows; None if it would be a guess.

        It is at least 1: time that is independent of rows stays.
        """
        if self.production_rows is None or self.production_rows <= self.rows:
            return 1.0
        times = self.production_rows / self.rows if self.rows else MOST_SCALED + 1
        return times if times <= MOST_SCALED else None

    @property
    def production_wait_ms(self) -> float | None:
        """The longest wait, scaled to production's rows; None if it would be a guess."""
        return None if self.scale is None else self.wait_ms * self.scale

    @property
    def is_in_the_way(self) -> bool:
        """Tell whether writers, readers, or updates of the same rows may wait for it."""
        return any(mode != "ShareUpdateExclusiveLock" for mode in self.modes)

    @property
    def is_kept_for_later(self) -> bool:
        """Tell whether a statement of a later revision took most of the time."""
        taken, spent = self.taken_by, self.spent_by
        return bool(taken and spent and spent.revision != self.revision and spent.start >= taken.end)

    @property
    def patience_ms(self) -> float:
        """The time for which its request for ACCESS EXCLUSIVE may block others; 0 if unknown."""
        tried = self.encounter.waited_ms if self.encounter is not None and self.encounter.gave_up else 0.0
        return self.lock_timeout_ms or tried

    @property
    def gives_up(self) -> bool | None:
        """Tell whether waiting for ACCESS EXCLUSIVE ends by itself; None if unknown or not requested.

        A trial outweighs lock_timeout, unless that is longer than the trial.
        """
        if STRONGEST not in self.modes:
            return None
        if self.encounter is not None:
            return self.encounter.gave_up or (self.lock_timeout_ms or 0.0) >= READER_MS
        return None if self.lock_timeout_ms is None else not self.never_gives_up


@dataclass(frozen=True, slots=True)
class RevisionImpact:
    """The impact of one revision."""

    revision: str
    path: str
    duration_ms: float
    tables: tuple[TableImpact, ...] = ()
    gates: tuple[GateOutcome, ...] = ()
    slowest: Statement | None = None
    loose: bool = False  # a change outside a transaction: its short locks are unseen


@dataclass(frozen=True, slots=True)
class LimitFinding:
    """One reason why a rehearsal is over its limit, and the replacement to write."""

    revision: str
    table: str
    source: str
    what: str
    instead: str
    verdict: LimitVerdict


@dataclass(frozen=True, slots=True)
class Return:
    """Downgrade and second upgrade: differences from before, and from the first upgrade."""

    back: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    failure: Failure | None = None

    @property
    def ok(self) -> bool:
        return not (self.back or self.again or self.failure)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The whole result."""

    clone: str
    server: str
    before: str | None
    after: str | None
    duration_ms: float
    idle_wait_ms: float
    revisions: tuple[RevisionImpact, ...]
    failure: Failure | None = None
    not_probed: dict[str, str] = field(default_factory=dict)
    autovacuum: tuple[str, ...] = ()
    production: str | None = None
    rows: int = 0  # of all tables of the clone, by the planner's statistics
    locks_file: bool = False  # SQLite: writers wait for the whole revision
    limit_ms: float | None = None
    findings: tuple[LimitFinding, ...] = ()
    returned: Return | None = None
    writes: Writes = field(default_factory=Writes)
    not_tried: str | None = None  # the reason why blocking readers were left out

    @property
    def tables(self) -> tuple[TableImpact, ...]:
        return tuple(table for revision in self.revisions for table in revision.tables)

    @property
    def measurable_ms(self) -> float:
        """The smallest wait that can be measured: a run without revisions shows smaller ones."""
        return self.idle_wait_ms * MEASURABLE_FACTOR

    @property
    def longest_wait_ms(self) -> float:
        """The longest wait, scaled to production's rows if possible."""
        if self.locks_file:
            return max((revision.duration_ms for revision in self.revisions), default=0.0)
        return max((table.wait_ms * (table.scale or 1.0) for table in self.tables), default=0.0)

    @property
    def beyond(self) -> tuple[TableImpact, ...]:
        """Tables with so many more rows in production that its waits are unknown."""
        return tuple(table for table in self.tables if table.scale is None and table.is_in_the_way)

    @property
    def gives_up(self) -> bool | None:
        """Tell whether every wait for ACCESS EXCLUSIVE ends by itself; None if one is unknown."""
        found = [table.gives_up for table in self.tables if STRONGEST in table.modes]
        return False if False in found else None if None in found else True

    @property
    def exit_code(self) -> int:
        if self.failure is not None:
            return self.failure.exit_code
        returned = self.returned is None or self.returned.ok
        return 1 if self.findings or self.writes.broken or not returned else 0


# Findings: figures over the limit, their causes, and the replacement to write.

WORTH_REPORTING = 10  # statements with a smaller fraction of the wait are not listed
NEVER_GIVES_UP = (
    "requests ACCESS EXCLUSIVE without a lock_timeout: behind one long transaction all later statements wait",
    "pipestate.ddl.lock_tables(...) first: it waits briefly, again and again",
)
LONG_TIMEOUT = (
    "requests ACCESS EXCLUSIVE with a lock_timeout above the limit: later statements may wait as long",
    NEVER_GIVES_UP[1],
)
CAUSES = (
    (
        r"^\s*create\s+(unique\s+)?index\s+(?!concurrently\b)",
        "builds an index under a lock that stops writers",
        "pipestate.ddl.create_index (CONCURRENTLY)",
    ),
    (
        r'\badd\s+(constraint\s+("[^"]+"|\S+)\s+)?(check|foreign\s+key)\b(?!.*\bnot\s+valid\b)',
        "validates a constraint under its lock",
        "pipestate.ddl.add_checks or add_foreign_key: NOT VALID first, then VALIDATE",
    ),
    (
        r'\badd\s+(constraint\s+("[^"]+"|\S+)\s+)?(unique|primary\s+key|exclude)\b(?!\s*using\s+index\b)',
        "builds the index of a constraint under its lock",
        "pipestate.ddl.create_index(..., unique=True), then ADD CONSTRAINT … USING INDEX",
    ),
    (
        r"\balter\s+(column\s+)?\S+\s+set\s+not\s+null\b",
        "reads the whole table under its lock for NOT NULL",
        "pipestate.ddl.add_checks with `… IS NOT NULL` before it",
    ),
    (
        r"\bvalidate\s+constraint\b",
        "validates a constraint in the transaction that holds a stronger lock",
        "pipestate.ddl.add_checks or add_foreign_key, which validate in a transaction of their own",
    ),
    (
        r"^\s*(with\b.*)?\b(update|delete|insert|merge)\b",
        "writes many rows in one transaction",
        "a `-- backfill:` block and `pipestate backfill`, or pipestate.ddl.update_in_batches",
    ),
)
REWRITES = (
    (
        r"\balter\s+(column\s+)?\S+\s+(set\s+data\s+)?type\b",
        "rewrites the table under its lock",
        "a new column with pipestate.ddl.add_columns, a backfill, and a Contract for the old one",
    ),
    (
        r'\badd\s+(column\b|(?!(constraint|check|foreign|unique|primary|exclude|not|table)\b)[\w"])',
        "rewrites the table under its lock, to compute the new column for each row",
        "the column without its default, then ALTER COLUMN … SET DEFAULT, then a backfill of the rows that are there",
    ),
    (
        "",
        "rewrites the table under its lock",
        "a new column and a backfill, or a time when nobody needs the table",
    ),
)
OTHER = ("runs while the lock is held", "a revision of its own, and transaction_per_migration=True in env.py")
LATER = (
    "keeps its lock while a later revision runs",
    "transaction_per_migration=True in env.py: then the locks of a revision end with it",
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


def judge(made: Rehearsal, limit_ms: float) -> tuple[LimitFinding, ...]:
    """List figures over the limit or too close to it, without those too small to measure.

    On SQLite writers wait until a revision is over.
    """
    if made.locks_file:
        found = (
            LimitFinding(
                each.revision,
                "the file",
                (each.slowest and each.slowest.source) or each.path,
                *FILE,
                verdict(each.duration_ms, limit_ms),
            )
            for each in made.revisions
        )
        return tuple(each for each in found if each.verdict is not LimitVerdict.WITHIN)
    over = (each for table in made.tables for each in _findings(table, limit_ms, made.measurable_ms))
    return tuple(dict.fromkeys(over))


def _findings(table: TableImpact, limit_ms: float, measurable_ms: float) -> Iterator[LimitFinding]:
    if table.gives_up is False:
        yield _finding(table, table.taken_by, NEVER_GIVES_UP, LimitVerdict.OVER)
    elif table.patience_ms > limit_ms:
        yield _finding(table, table.taken_by, LONG_TIMEOUT, LimitVerdict.OVER)
    found = verdict(table.wait_ms * (table.scale or 1.0), limit_ms)
    too_small = table.wait_ms < measurable_ms and found is not LimitVerdict.OVER
    if table.scale is None and found is not LimitVerdict.OVER:
        if table.is_in_the_way:
            yield _finding(table, table.taken_by, BEYOND, LimitVerdict.UNKNOWN)
    elif found is not LimitVerdict.WITHIN and not too_small:
        main = table.spent_by or table.taken_by
        yield _finding(table, main, LATER if table.is_kept_for_later else _cause(table, main) or OTHER, found)
        for statement in table.statements:
            cause = _cause(table, statement)
            is_long = statement.duration_ms >= max(table.wait_ms / WORTH_REPORTING, measurable_ms)
            if statement != main and cause is not None and is_long:
                yield _finding(table, statement, cause, found)


def _cause(table: TableImpact, statement: Statement | None) -> tuple[str, str] | None:
    """Find the slow operation of a statement under a lock; None for any other statement."""
    sql = statement.sql if statement else ""
    rewrites = table.rewritten and statement == (table.rewritten_by or table.spent_by)
    causes = REWRITES if rewrites else CAUSES
    return next(
        ((what, instead) for pattern, what, instead in causes if re.search(f"(?is){pattern}", sql)), None
    )


def _finding(
    table: TableImpact, by: Statement | None, words: tuple[str, str], found: LimitVerdict
) -> LimitFinding:
    source = (by.source if by else None) or ""
    return LimitFinding(table.revision, table.table, source, *words, found)
