"""Report of a run: verdicts of checks, phases with their gates, and the exit code."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pipestate.core.text import many, place, plain
from pipestate.runbook.model import Advice, Level
from pipestate.verify.values import Json, shortened

LONGEST_ADVICE = 200


class Outcome(StrEnum):
    """Errored: not evaluated because of an error. Skipped: outside the range of its phase."""

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one check, ready to be rendered, with JSON values.

    `source` is the `path:line` of the check, `block` that of its SQL; `evidence` has the first rows that show why,
    `evidence_rows` is the number of all; `advice` is the runbook's next step.
    """

    check_id: str
    outcome: Outcome
    level: Level
    require: str
    observed: Mapping[str, Json]
    message: str
    source: str
    duration_ms: float
    evidence: tuple[Mapping[str, Json], ...] = field(default=())
    evidence_rows: int = 0
    block: str = ""
    advice: Advice | None = None

    @property
    def went_wrong(self) -> bool:
        return self.outcome in (Outcome.FAILED, Outcome.ERRORED)

    @property
    def warned(self) -> bool:
        """Say whether it counts as a warning: a `warn` check never closes a gate."""
        return self.went_wrong and self.level is Level.WARN

    @property
    def closes(self) -> bool:
        """Say whether this verdict alone keeps the gate of its phase closed."""
        return self.went_wrong and self.level is Level.BLOCK


class Gate(StrEnum):
    """Ahead: the phase begins later. Past: it has ended."""

    OPEN = "open"
    CLOSED = "closed"
    AHEAD = "ahead"
    PAST = "past"


@dataclass(frozen=True, slots=True)
class DatabaseInfo:
    url: str
    dialect: str
    server_version: str
    revision: str | None
    head: str | None


@dataclass(frozen=True, slots=True)
class PhaseReport:
    name: str
    gate: Gate
    opens: tuple[str, ...]
    checks: tuple[Verdict, ...]
    text_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class RunbookReport:
    name: str
    path: str
    sha256: str
    phases: tuple[PhaseReport, ...]


@dataclass(frozen=True, slots=True)
class Report:
    database: DatabaseInfo
    started_at: datetime
    duration_ms: float
    runbooks: tuple[RunbookReport, ...]
    warnings: tuple[str, ...] = ()

    def phases(self) -> Iterator[tuple[RunbookReport, PhaseReport]]:
        return ((runbook, phase) for runbook in self.runbooks for phase in runbook.phases)

    def verdicts(self) -> Iterator[Verdict]:
        return (verdict for _, phase in self.phases() for verdict in phase.checks)

    def summary(self) -> dict[str, int]:
        """Count each outcome; a failure at level `warn` counts as warned."""
        return count(self.verdicts())

    @property
    def ran(self) -> int:
        return sum(verdict.outcome is not Outcome.SKIPPED for verdict in self.verdicts())

    @property
    def exit_code(self) -> int:
        """0 if all passed, 1 if a gate is closed, 2 if no check ran, 3 if a check errored."""
        closing = [verdict.outcome for verdict in self.verdicts() if verdict.closes]
        if Outcome.ERRORED in closing:
            return 3
        if closing:
            return 1
        return 0 if self.ran else 2

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


def count(verdicts: Iterable[Verdict]) -> dict[str, int]:
    counts = Counter("warned" if verdict.warned else str(verdict.outcome) for verdict in verdicts)
    return {name: counts[name] for name in ("passed", "failed", "warned", "errored", "skipped")}


def gate_of(checks: tuple[Verdict, ...]) -> Gate:
    """Open if every blocking check passed, and a check ran."""
    ran = [verdict for verdict in checks if verdict.outcome is not Outcome.SKIPPED]
    return Gate.OPEN if ran and not any(verdict.closes for verdict in ran) else Gate.CLOSED


def count_closing(checks: Iterable[Verdict]) -> str:
    """Count the checks that keep a gate closed, of those that ran."""
    asked = [verdict for verdict in checks if verdict.outcome is not Outcome.SKIPPED]
    closing = [verdict.outcome for verdict in asked if verdict.closes]
    if not closing:
        return "no check applies here and blocks"
    of = f"of {many(len(asked), 'check')}"
    failed, errored = (closing.count(outcome) for outcome in (Outcome.FAILED, Outcome.ERRORED))
    if not errored:
        return f"{failed} {of} failed"
    broken = f"{errored} could not be evaluated" if failed else f"{errored} {of} could not be evaluated"
    return f"{failed} {of} failed, {broken}" if failed else broken


def advice_line(advice: Advice) -> str:
    """Write the first characters of a check's advice, and the place of the full text."""
    text = shortened(advice.text, LONGEST_ADVICE)
    if text != advice.text:
        text = f"{text.rpartition(' ')[0]} …"
    return f"{plain(text)} ({place(advice.source)})"
