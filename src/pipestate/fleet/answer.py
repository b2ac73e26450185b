"""What one database of a fleet answered, without the rows that show why: a thousand of these fit into memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import URL

from pipestate.config import shown
from pipestate.verify.report import Gate, PhaseReport, Report
from pipestate.verify.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Wrong:
    """A check that failed or errored."""

    check: str
    outcome: str
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class PhaseFound:
    """A phase with its gate, and what went wrong in it."""

    name: str
    gate: Gate
    wrong: tuple[Wrong, ...] = ()

    @property
    def closed_by(self) -> tuple[str, ...]:
        return tuple(each.check for each in self.wrong if each.level == "block")


@dataclass(frozen=True, slots=True)
class Pending:
    """What a plan says of one database: the revisions that are not applied, and the next step."""

    revisions: tuple[str, ...]
    next: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One database's answer. `exit_code` is that of the same command on it alone; with `error` nothing else is known.

    `definitions` is a digest of its schema: the same wherever that is the same.
    """

    name: str
    url: URL
    schema: str | None
    exit_code: int
    duration_ms: float = 0.0
    error: str | None = None
    dialect: str | None = None
    server_version: str | None = None
    revision: str | None = None
    head: str | None = None
    summary: Mapping[str, int] = field(default_factory=dict)
    phases: tuple[PhaseFound, ...] = ()
    warnings: tuple[str, ...] = ()
    definitions: str | None = None
    pending: Pending | None = None

    @property
    def shown_url(self) -> str:
        return shown(self.url)

    @property
    def closed(self) -> tuple[PhaseFound, ...]:
        return tuple(phase for phase in self.phases if phase.gate is Gate.CLOSED)

    @property
    def is_past(self) -> bool:
        """Tell whether it is beyond all that was asked: neither a yes nor a no."""
        return bool(self.phases) and all(phase.gate is Gate.PAST for phase in self.phases)


def phases_of(report: Report) -> tuple[PhaseFound, ...]:
    """Keep of a report what differs between databases."""
    return tuple(_phase(f"{runbook.name}/{phase.name}", phase) for runbook, phase in report.phases())


def _phase(name: str, phase: PhaseReport) -> PhaseFound:
    return PhaseFound(name, phase.gate, tuple(_wrong(each) for each in phase.checks if each.went_wrong))


def _wrong(verdict: Verdict) -> Wrong:
    return Wrong(verdict.check_id, str(verdict.outcome), str(verdict.level), verdict.message)
