"""Plan, then apply: the words that backfill, reconcile, `queues clear` and `queues restore` share.

1. `plan(...)` only reads. It returns a `Plan`: for each subject (a site, a job) the `Result` to expect.
2. `apply(..., plan, ..., on_progress=...)` carries out exactly that plan and returns the results that came
   of it, in the same order. One differs from the plan where the world moved on, or where a write was refused.
3. A dry run is the same plan, not applied: it shows `plan.expected` instead of what `apply` returns.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

Subject = TypeVar("Subject")


class SubjectOutcome(StrEnum):
    """What becomes of a subject; the values are what `--json` prints. `done` means: something was written."""

    done: bool

    def __new__(cls, value: str, done: bool = False) -> "SubjectOutcome":
        member = str.__new__(cls, value)
        member._value_ = value
        member.done = done
        return member

    # backfill
    MIGRATED = "migrated", True
    EMPTY = "completed without documents", True
    MOVED_ON = "already moved on"
    ORPHANED = "orphaned"
    # reconcile
    RECOVERED = "recovered", True
    SKIPPED = "skipped"
    # queues clear
    DELETED = "deleted", True
    CHANGED = "changed"
    GONE = "gone"
    # queues restore
    RESTORED = "restored", True
    EXISTS = "exists"
    EXPIRED = "expired"
    # any of them
    FAILED = "failed"


class Result(NamedTuple, Generic[Subject]):
    """What becomes of one subject, and why. A tuple: a backfill may have a million of them."""

    subject: Subject
    outcome: SubjectOutcome
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Plan(Generic[Subject]):
    """The results to expect, in the order in which they will be tried."""

    expected: Sequence[Result[Subject]]

    @property
    def to_do(self) -> list[Result[Subject]]:
        """The part that writes."""
        return [result for result in self.expected if result.outcome.done]


def count(results: "Iterable[Result[Subject]]", *outcomes: SubjectOutcome) -> dict[str, int]:
    """How many results there are of each of these outcomes, by its word.

    >>> count([Result("a.gov", SubjectOutcome.RECOVERED)], SubjectOutcome.RECOVERED, SubjectOutcome.FAILED)
    {'recovered': 1, 'failed': 0}
    """
    counted = Counter(result.outcome for result in results)
    return {str(outcome): counted[outcome] for outcome in outcomes}


def any_failed(results: "Iterable[Result[Subject]]") -> bool:
    return any(result.outcome is SubjectOutcome.FAILED for result in results)
