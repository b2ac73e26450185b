"""What becomes of a site in the backfill, as values."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from pipestate.pipeline.storage import Documents

NO_DOCUMENTS = "no documents in the storage directory, and site_progress expected none"


class Outcome(StrEnum):
    MIGRATED = "migrated"
    EMPTY = "completed without documents"
    MOVED_ON = "already moved on"
    ORPHANED = "orphaned"
    FAILED = "failed"


class Move(NamedTuple):
    """What becomes of one site. A tuple: there may be a million, and they are kept until the last is counted."""

    subdomain: str
    outcome: Outcome
    completed: int = 0
    total: int = 0
    reason: str | None = None

    @property
    def failed(self) -> int:
        return self.total - self.completed

    @property
    def writes(self) -> bool:
        return self.outcome is Outcome.MIGRATED or self.outcome is Outcome.EMPTY


@dataclass(frozen=True, slots=True)
class Plan:
    """The moves in the order of their subdomains, and the age that made them stale."""

    moves: list[Move]
    threshold: timedelta

    @property
    def writes(self) -> list[Move]:
        return [move for move in self.moves if move.writes]


def counts(stage_total: int, documents: Documents) -> tuple[int, int]:
    """Completed and total: what is there; without PDFs, what `site_progress` expected, if that is more.

    >>> counts(15, Documents({}, frozenset({"council/2024-01-01"})))
    (1, 15)
    """
    completed = documents.completed
    return completed, documents.total if documents.pdfs else max(stage_total, completed)
