"""Reports of the child: statements with their times and locks, revisions, gates.

Times are `time.monotonic()`, which the two processes share.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipestate.rehearse.statements import Prepared, read_prepared


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock on a table that a session held after a statement; `file` is the table's relfilenode then."""

    oid: int
    mode: str
    file: int | None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a revision. `source` is the line of its file that ran it; None if other code ran it."""

    revision: str
    session: int
    source: str | None
    sql: str
    start: float
    end: float
    locks: tuple[Lock, ...] = ()
    lock_timeout_ms: float | None = None

    @property
    def duration_ms(self) -> float:
        return (self.end - self.start) * 1000

    @property
    def first_words(self) -> str:
        """The beginning of the statement on one line."""
        line = " ".join(self.sql.split())
        return line if len(line) <= 60 else f"{line[:59]}…"


@dataclass(frozen=True, slots=True)
class Begun:
    """A revision that began, and its file."""

    revision: str
    path: str
    at: float


Begins = Callable[[Begun], None]  # called when a revision begins


def no_progress(begun: Begun) -> None:
    """Ignore a revision that begins."""


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The state of a gate for a revision on the clone: its name, `open` or `closed`, and the failed checks."""

    revision: str
    gate: str
    state: str
    failing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that stopped the child: a sentence, the line, the exit code, the server's code."""

    message: str
    source: str | None
    exit_code: int
    sqlstate: str | None = None


@dataclass(slots=True)
class Trace:
    """All reports of the child."""

    statements: list[Statement] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    ended: list[tuple[int, float]] = field(
        default_factory=list
    )  # sessions with the ends of their transactions
    gates: list[GateOutcome] = field(default_factory=list)
    prepared: list[tuple[str | None, list[Prepared]]] = field(default_factory=list)  # by the revision before
    failure: Failure | None = None
    empty_at: float | None = None  # from here to the first revision, an empty one is measured
    done_at: float | None = None
    begins: Begins = no_progress

    @property
    def is_empty(self) -> bool:
        """Tell whether env.py runs without revisions: waits are noise then."""
        return self.empty_at is not None and not self.begun

    def take(self, said: Mapping[str, Any]) -> None:
        """Process one message."""
        values = {name: value for name, value in said.items() if name != "what"}
        what = said["what"]
        if what == "statement":
            locks = tuple(Lock(*each) for each in values.pop("locks"))
            self.statements.append(Statement(**values, locks=locks))
        elif what == "revision":
            self.begun.append(Begun(**values))
            self.begins(self.begun[-1])
        elif what == "ended":
            self.ended.append((values["session"], values["at"]))
        elif what == "gate":
            self.gates.append(GateOutcome(**{**values, "failing": tuple(values["failing"])}))
        elif what == "prepared":
            self.prepared.append((values["after"], [read_prepared(each) for each in values["found"]]))
        elif what == "failed":
            self.failure = Failure(**values)
        elif what == "empty":
            self.empty_at = values["at"]
        elif what == "done":
            self.done_at = values["at"]

    def statement_at(self, moment: float) -> Statement | None:
        """Find the statement that ran at a moment, else the last one before it."""
        before = [each for each in self.statements if each.start <= moment]
        return before[-1] if before else None
