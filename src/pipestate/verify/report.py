"""What a run of verify found: phases with their gates, and what that means for the exit code."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pipestate.verify.verdict import Outcome, Verdict


class Gate(StrEnum):
    """Ahead: the database is not there yet. Past: it is beyond."""

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
        """How many of each; what went wrong at level `warn` is counted as warned, not as failed."""
        return count(self.verdicts())

    @property
    def ran(self) -> int:
        return sum(verdict.outcome is not Outcome.SKIPPED for verdict in self.verdicts())

    @property
    def exit_code(self) -> int:
        """0 all passed, 1 a gate is closed, 2 nothing was checked, 3 something could not be evaluated."""
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
    """Open when every blocking check passed, and there was one to pass."""
    ran = [verdict for verdict in checks if verdict.outcome is not Outcome.SKIPPED]
    return Gate.OPEN if ran and not any(verdict.closes for verdict in ran) else Gate.CLOSED
