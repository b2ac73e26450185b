"""Backfill of the pipeline: sites stalled in OCR get counters from the storage directory.

1. `plan` reads the stale rows of `site_progress`, counts the documents of each site, and decides
   (stale_rows.py) about it. It is read-only.
2. `apply` writes exactly that plan, in batches of one transaction each (batch.py). Sites that changed in the
   meantime stay unchanged, so repeated, killed or concurrent runs are safe.
"""

import time
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import URL

from pipestate.backfill.forecast import fixed_or_adapted
from pipestate.core.errors import ConfigError
from pipestate.core.progress import Progress, no_progress
from pipestate.database import connections as db
from pipestate.pipeline.backfill import batch, stale_rows
from pipestate.pipeline.backfill.stale_rows import (
    Counted,
    DocumentTally,
    SiteCounts,
    StaleRow,
    decide_counts,
    decide_unread,
    require_known_sites,
)
from pipestate.pipeline.planning import Plan, Result, SubjectOutcome
from pipestate.pipeline.stages import THRESHOLD
from pipestate.pipeline.storage import StorageError

__all__ = ["LARGEST_BATCH", "OUTCOMES", "BackfillPlan", "SiteCounts", "apply", "plan", "require_batch_size"]

LARGEST_BATCH = 10_000  # larger batches are slower, and workers wait for their rows
OUTCOMES = (
    SubjectOutcome.MIGRATED,
    SubjectOutcome.EMPTY,
    SubjectOutcome.MOVED_ON,
    SubjectOutcome.ORPHANED,
    SubjectOutcome.FAILED,
)


@dataclass(frozen=True, slots=True)
class BackfillPlan(Plan[SiteCounts]):
    """Results in the order of their subdomains, and the age that made the rows stale."""

    threshold: timedelta


def plan(
    url: URL, storage: Counted, *, threshold: timedelta = THRESHOLD, on_progress: Progress = no_progress
) -> BackfillPlan:
    """Decide about every stale row; refuse an implausible storage directory."""
    total = stale_rows.count(url, threshold)
    require_known_sites(url, storage)
    tally = DocumentTally()
    expected: list[Result[SiteCounts]] = []
    for row in stale_rows.read(url, threshold):
        expected.append(decide_unread(row) or _counted(row, storage, tally))
        on_progress(len(expected), max(total, len(expected)))
    tally.require()
    return BackfillPlan(expected, threshold)


def apply(
    url: URL, plan: BackfillPlan, *, batch_size: int | None = None, on_progress: Progress = no_progress
) -> list[Result[SiteCounts]]:
    """Write the plan; a result differs from it if the site changed or its row was refused.

    Without a size, a batch has the number of sites that takes about 200 ms.
    """
    require_batch_size(batch_size)
    to_do, end = plan.to_do, 0
    pace = fixed_or_adapted(batch_size, largest=LARGEST_BATCH)
    otherwise: dict[str, Result[SiteCounts]] = {}
    with db.reachable(url), db.engine_for(url).connect() as connection:
        while end < len(to_do):
            start, end, began = end, min(end + pace.size, len(to_do)), time.monotonic()
            otherwise |= batch.write(connection, to_do[start:end], plan.threshold, last=end == len(to_do))
            pace = pace.after(time.monotonic() - began)
            on_progress(end, len(to_do))
    return [otherwise.get(result.subject.subdomain, result) for result in plan.expected]


def require_batch_size(size: int | None) -> None:
    """Refuse an invalid number of sites, or one that would make workers wait."""
    if size is not None and not 1 <= size <= LARGEST_BATCH:
        raise ConfigError(f"--batch-size {size}: give a number of sites from 1 to {LARGEST_BATCH}")


def _counted(row: StaleRow, storage: Counted, tally: DocumentTally) -> Result[SiteCounts]:
    subdomain, expected = row[0], max(row[1] or 0, 0)
    try:
        documents = storage.documents(subdomain)
    except StorageError as error:
        return Result(SiteCounts(subdomain), SubjectOutcome.FAILED, str(error))
    tally.add(expected, documents)
    return decide_counts(subdomain, expected, documents)
