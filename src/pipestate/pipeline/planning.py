"""Plan, then apply: the types that backfill, reconcile and `queues clear` share.

1. `plan(...)` only reads. It returns a `Plan`: the expected `Result` for each subject (a site, a job).
2. `apply(..., plan, ..., on_progress=...)` carries out exactly that plan and returns the actual results
   in the same order. A result differs from the plan if the subject changed or a write was refused.
3. A dry run stops after the plan: it shows `plan.expected` instead of the results of `apply`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

Subject = TypeVar("Subject")


class SubjectOutcome(StrEnum):
    """Outcome of a subject, with the values that `--json` prints."""

    # backfill
    MIGRATED = "migrated"
    EMPTY = "completed without documents"
    MOVED_ON = "already moved on"
    ORPHANED = "orphaned"
    # reconcile
    RECOVERED = "recovered"
    SKIPPED = "skipped"
    # queues clear
    DELETED = "deleted"
    CHANGED = "changed"
    GONE = "gone"
    # any of them
    FAILED = "failed"

    @property
    def done(self) -> bool:
        """Tell whether data was written."""
        return self in DONE


DONE = {SubjectOutcome.MIGRATED, SubjectOutcome.EMPTY, SubjectOutcome.RECOVERED, SubjectOutcome.DELETED}
RECONCILED = (SubjectOutcome.RECOVERED, SubjectOutcome.SKIPPED, SubjectOutcome.FAILED)


class Trigger(StrEnum):
    """What started a reconciliation: the schedule, or a person."""

    CRON = "cron"
    MANUAL = "manual"


class Result(NamedTuple, Generic[Subject]):
    """Outcome of one subject, and the reason. A tuple, because a backfill may have a million results."""

    subject: Subject
    outcome: SubjectOutcome
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Plan(Generic[Subject]):
    """Expected results, in the order of execution."""

    expected: Sequence[Result[Subject]]

    @property
    def to_do(self) -> list[Result[Subject]]:
        """Return the results that write data."""
        return [result for result in self.expected if result.outcome.done]


def count(results: "Iterable[Result[Subject]]", *outcomes: SubjectOutcome) -> dict[str, int]:
    """Count the results of each given outcome, by its value.

    >>> count([Result("a.gov", SubjectOutcome.RECOVERED)], SubjectOutcome.RECOVERED, SubjectOutcome.FAILED)
    {'recovered': 1, 'failed': 0}
    """
    counted = Counter(result.outcome for result in results)
    return {str(outcome): counted[outcome] for outcome in outcomes}


def any_failed(results: "Iterable[Result[Subject]]") -> bool:
    return any(result.outcome is SubjectOutcome.FAILED for result in results)
