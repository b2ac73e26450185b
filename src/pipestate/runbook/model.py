"""A runbook as frozen values: what `parse` gives and everything after it takes.

Every `line` is the 1-based line of the page where the heading, the fence or the item begins, so that
`path:line` is the source of a verdict; `block` is the `path:line` where its SQL stands, which is another
one for an `again:` and for a variant beside the page. `from_` is the first revision at which a thing
applies, `until` the first at which it no longer does.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import ClassVar, Protocol, TypeVar

from pipestate.runbook.require import Requirement

ON_PAGE = "postgresql"  # what `-- dialect:` may say, on the page
BESIDE = "sqlite"  # what every block of `<page>.sqlite.md` is for
DIALECTS = (ON_PAGE, BESIDE)

_ID = re.compile(r"[a-z0-9][a-z0-9-]*")


class Level(StrEnum):
    """What a failure means: a closed gate, or a warning that closes nothing."""

    BLOCK = "block"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A query run only when one of its checks fails; its rows are shown under the verdict."""

    check_ids: tuple[str, ...]
    line: int
    sql: str
    dialect: str | None = None
    block: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One query and what its answer must satisfy. `sql` is one statement without its semicolon.

    `again` is `phase/id` where the check is asked once more; `window` is the length of time in its SQL
    that may be another one then.
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

    def evidence_for(self, dialect: str) -> Evidence | None:
        return variant(self.evidence, dialect)


@dataclass(frozen=True, slots=True)
class SignOff:
    """A check on people's recorded word: it passes while that of `people` is younger than `valid_for`.

    It always blocks, on every engine and as long as its phase applies; it says so in the same words as
    a check does, so that whoever walks through a phase's checks need not ask which is which.
    """

    id: str
    line: int
    valid_for: timedelta
    text: str
    people: int = 1

    level: ClassVar[Level] = Level.BLOCK
    dialect: ClassVar[str | None] = None
    block: ClassVar[str] = ""
    from_: ClassVar[str | None] = None
    until: ClassVar[str | None] = None


@dataclass(frozen=True, slots=True)
class View:
    """A query that `status` shows and that never gates."""

    id: str
    line: int
    sql: str
    dialect: str | None = None
    from_: str | None = None
    until: str | None = None
    block: str = ""


@dataclass(frozen=True, slots=True)
class Backfill:
    """An UPDATE that `pipestate backfill` runs in batches, over ranges of `key`; no check, and never run by one.

    `table` and `key` are names as SQL writes them; in `sql`, `:first` and `:last` stand for a batch's keys.
    """

    id: str
    line: int
    sql: str
    table: str
    key: str
    dialect: str | None = None
    block: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """A section of the runbook. `opens` names the revisions whose gate it is."""

    name: str
    line: int
    from_: str | None
    until: str | None
    opens: tuple[str, ...]
    checks: tuple[Check | SignOff, ...]
    views: tuple[View, ...]
    backfills: tuple[Backfill, ...] = ()

    @property
    def signoffs(self) -> tuple[SignOff, ...]:
        return tuple(check for check in self.checks if isinstance(check, SignOff))

    def checks_for(self, dialect: str) -> tuple[Check | SignOff, ...]:
        """What is asked on this engine, in document order, one variant of each check."""
        return _chosen(self.checks, dialect)

    def views_for(self, dialect: str) -> tuple[View, ...]:
        return _chosen(self.views, dialect)

    def backfills_for(self, dialect: str) -> tuple[Backfill, ...]:
        return _chosen(self.backfills, dialect)


@dataclass(frozen=True, slots=True)
class Runbook:
    """A whole page; `variants` is the path of its SQLite variants, where it has any.

    `sha256` is that of both files' bytes: `cat orders.md orders.sqlite.md | sha256sum` says the same.
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


class _Variant(Protocol):
    @property
    def dialect(self) -> str | None: ...


class _NamedVariant(_Variant, Protocol):
    @property
    def id(self) -> str: ...


V = TypeVar("V", bound=_Variant)
N = TypeVar("N", bound=_NamedVariant)


def variant(variants: Iterable[V], dialect: str) -> V | None:
    """The block for this engine: the one written for it, else the one written for any."""
    fitting = [each for each in variants if each.dialect in (None, dialect)]
    return max(fitting, key=lambda each: each.dialect is not None, default=None)


def is_variant(block: _Variant) -> bool:
    """Tell whether a block stands beside the page, in `<page>.sqlite.md`."""
    return block.dialect == BESIDE


def is_for_postgresql(block: _Variant) -> bool:
    """Tell whether the page says of a block that SQLite cannot hold this state."""
    return block.dialect == ON_PAGE


def _chosen(items: Iterable[N], dialect: str) -> tuple[N, ...]:
    variants: dict[str, list[N]] = {}
    for item in items:
        variants.setdefault(item.id, []).append(item)
    chosen = (variant(same, dialect) for same in variants.values())
    return tuple(item for item in chosen if item is not None)


def is_id(text: str) -> bool:
    """Ids and names stay typeable on a command line.

    >>> is_id("late-orders"), is_id("Late orders")
    (True, False)
    """
    return _ID.fullmatch(text) is not None
