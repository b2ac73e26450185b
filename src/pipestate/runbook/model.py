"""Runbook findings with file and line, and the frozen values of a parsed runbook."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from hashlib import sha256
from typing import ClassVar, TypeVar

from pipestate.core.errors import RunbookError
from pipestate.runbook.criterion import Requirement


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A fault in a runbook: the message describes it and its fix."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"

    @classmethod
    def at(cls, block: str, message: str) -> "Finding":
        """Build the finding of a block, given as `path:line`."""
        path, _, line = block.rpartition(":")
        return cls(path, int(line), message)

    def error(self) -> RunbookError:
        return RunbookError(self.path, self.line, self.message)


class Findings:
    """Collect all faults of a runbook, so that lint reports them in one run."""

    def __init__(self, path: str, found: set[Finding] | None = None) -> None:
        self.path = path
        self._found: set[Finding] = set() if found is None else found

    def add(self, line: int, message: str) -> None:
        self._found.add(Finding(self.path, line, message))

    def at(self, block: str, message: str) -> None:
        """Add a fault of a block, given as `path:line` in any file of the runbook."""
        self._found.add(Finding.at(block, message))

    def beside(self, path: str) -> "Findings":
        """Return a collector for another file of the same runbook."""
        return Findings(path, self._found)

    def in_order(self) -> list[Finding]:
        return sorted(self._found)


# Frozen values of a runbook, returned by `parse` and used by all later stages.
#
# `line` is the 1-based line in the runbook of the heading, fence or item, so `path:line` locates a verdict.
# `block` is the `path:line` of the SQL. It differs from `line` for an `again:` item and for a SQLite variant.
# `from_` is the first revision at which an item applies, `until` the first at which it no longer applies.


POSTGRESQL = "postgresql"  # the only value of `-- dialect:` in a runbook
SQLITE = "sqlite"  # the dialect of every block in `<runbook>.sqlite.md`
DIALECTS = (POSTGRESQL, SQLITE)

_ID = re.compile(r"[a-z0-9][a-z0-9-]*")


class Level(StrEnum):
    """The effect of a failed check: BLOCK closes the gate, WARN only warns."""

    BLOCK = "block"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A query that runs after one of its checks fails; its rows appear under the verdict."""

    check_ids: tuple[str, ...]
    line: int
    sql: str
    dialect: str | None = None
    block: str = ""


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice for a failed check: the paragraph under its block, with its `path:line`."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Check:
    """A query and the criterion for its result. `sql` is one statement without its semicolon.

    On a repeated check, `again` is the `phase/id` of the original. `window` is the time span that it may
    change.
    """

    id: str
    line: int
    sql: str
    require: Requirement
    level: Level = Level.BLOCK
    dialect: str | None = None
    from_: str | None = None
    until: str | None = None
    evidence: tuple[Evidence, ...] = ()
    window: str | None = None
    block: str = ""
    again: str | None = None
    advice: Advice | None = None

    def evidence_for(self, dialect: str) -> Evidence | None:
        return variant(self.evidence, dialect)


@dataclass(frozen=True, slots=True)
class SignOff:
    """A check that passes while `people` people have signed off within `valid_for`.

    It always blocks, on every engine, while its phase applies. It has the same attributes as a check, so that
    code can iterate over a phase's checks without distinguishing the two.
    """

    id: str
    line: int
    valid_for: timedelta
    text: str
    people: int = 1

    @property
    def text_sha256(self) -> str:
        """Hash the confirmed text and its validity: a sign-off of another text does not count."""
        return sha256(f"{self.valid_for.total_seconds():.0f} {self.text}".encode()).hexdigest()

    level: ClassVar[Level] = Level.BLOCK
    dialect: ClassVar[str | None] = None
    block: ClassVar[str] = ""
    from_: ClassVar[str | None] = None
    until: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class View:
    """A query that `status` shows; it never affects a gate."""

    id: str
    line: int
    sql: str
    dialect: str | None = None
    from_: str | None = None
    until: str | None = None
    block: str = ""


@dataclass(frozen=True, slots=True)
class Backfill:
    """An UPDATE that `pipestate backfill` runs in batches over ranges of `key`; checks never run it.

    `table` and `key` are SQL names. In `sql`, `:first` and `:last` are the first and last key of a batch.
    """

    id: str
    line: int
    sql: str
    table: str
    key: str
    dialect: str | None = None
    block: str = ""


@dataclass(frozen=True, slots=True)
class Again:
    """An `again` item; `id` is the id of the check in the phase that contains its block."""

    id: str
    line: int
    phase: str
    require: Requirement | None = None
    over: str | None = None

    @property
    def address(self) -> str:
        return f"{self.phase}/{self.id}"


@dataclass(frozen=True, slots=True)
class Phase:
    """A section of the runbook. `opens` lists the revisions that its gate guards."""

    name: str
    line: int
    from_: str | None
    until: str | None
    opens: tuple[str, ...]
    checks: tuple[Check | SignOff, ...]
    views: tuple[View, ...]
    backfills: tuple[Backfill, ...] = ()

    @property
    def text_sha256(self) -> str:
        """Hash the blocking checks of the gate: records of another text do not count towards a soak."""
        contents = [
            (check.id, check.dialect, check.sql, check.require.text)
            if isinstance(check, Check)
            else (check.id, check.people, check.text_sha256, "")
            for check in self.checks
            if check.level is Level.BLOCK
        ]
        return sha256(repr(sorted(contents, key=repr)).encode()).hexdigest()

    @property
    def signoffs(self) -> tuple[SignOff, ...]:
        return tuple(check for check in self.checks if isinstance(check, SignOff))

    def checks_for(self, dialect: str) -> tuple[Check | SignOff, ...]:
        """List the checks for this engine in document order, one variant of each."""
        return _chosen(self.checks, dialect)

    def views_for(self, dialect: str) -> tuple[View, ...]:
        return _chosen(self.views, dialect)

    def backfills_for(self, dialect: str) -> tuple[Backfill, ...]:
        return _chosen(self.backfills, dialect)


@dataclass(frozen=True, slots=True)
class Runbook:
    """A whole runbook; `variants` is the path of its SQLite variants, if any.

    `sha256` covers the bytes of both files, like `cat orders.md orders.sqlite.md | sha256sum`.
    """

    name: str
    path: str
    title: str
    default: bool
    sha256: str
    phases: tuple[Phase, ...]
    text: str = field(repr=False)
    variants: str | None = None

    def phase(self, name: str) -> Phase | None:
        return next((phase for phase in self.phases if phase.name == name), None)


SqlBlock = Check | Evidence | View | Backfill
Part = SqlBlock | SignOff | Again
V = TypeVar("V", bound=SqlBlock | SignOff)
N = TypeVar("N", bound=Check | View | Backfill | SignOff)


def variant(variants: Iterable[V], dialect: str) -> V | None:
    """Return the block written for this engine, else the block written for any engine."""
    fitting = [each for each in variants if each.dialect in (None, dialect)]
    return max(fitting, key=lambda each: each.dialect is not None, default=None)


def ids_of(part: Part) -> tuple[str, ...]:
    """Return the ids of the checks that evidence explains, or the id of another part."""
    return part.check_ids if isinstance(part, Evidence) else (part.id,)


def label(block: SqlBlock) -> str:
    """Name a block in a message, as `check late-orders`."""
    kind = "evidence for" if isinstance(block, Evidence) else type(block).__name__.lower()
    return f"{kind} {', '.join(ids_of(block))}"


def is_variant(block: SqlBlock | SignOff) -> bool:
    """Tell whether a block comes from the variants file `<runbook>.sqlite.md`."""
    return block.dialect == SQLITE


def is_for_postgresql(block: SqlBlock) -> bool:
    """Tell whether the runbook restricts a block to PostgreSQL, because SQLite cannot hold this state."""
    return block.dialect == POSTGRESQL


def _chosen(items: Iterable[N], dialect: str) -> tuple[N, ...]:
    variants: dict[str, list[N]] = {}
    for item in items:
        variants.setdefault(item.id, []).append(item)
    chosen = (variant(same, dialect) for same in variants.values())
    return tuple(item for item in chosen if item is not None)


def is_id(text: str) -> bool:
    """Tell whether an id or name is easy to type on a command line.

    >>> is_id("late-orders"), is_id("Late orders")
    (True, False)
    """
    return _ID.fullmatch(text) is not None
