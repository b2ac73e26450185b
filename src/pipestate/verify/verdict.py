"""What became of a check."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pipestate.runbook.model import Level
from pipestate.verify.values import Json


class Outcome(StrEnum):
    """Errored: it could not be evaluated. Skipped: its phase is not reached, or is past."""

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One check's answer, ready to be rendered; the values are JSON's.

    `source` is the `path:line` that asks, `block` the one where the SQL stands; `evidence` is the first
    rows that show why, `evidence_rows` how many there are.
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

    @property
    def went_wrong(self) -> bool:
        return self.outcome in (Outcome.FAILED, Outcome.ERRORED)

    @property
    def warned(self) -> bool:
        """Counted as a warning, whatever went wrong: a `warn` check closes nothing."""
        return self.went_wrong and self.level is Level.WARN

    @property
    def closes(self) -> bool:
        """Tell whether this verdict alone keeps the gate of its phase closed."""
        return self.went_wrong and self.level is Level.BLOCK
