"""The backfill: sites that stood still in OCR get counters that tell what is in the storage directory.

1. `plan` reads the stale rows of `site_progress`, counts the documents of each site, and decides (decide.py)
   what becomes of it. It cannot write.
2. `apply` writes exactly that, in batches, one transaction each (batch.py). What moved on in the meantime
   stays as it is, and so a second run, a killed one, or two at once do no harm.
"""

import time
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import URL

from pipestate import db
from pipestate.backfill.pace import fixed_or_adapted
from pipestate.errors import ConfigError
from pipestate.pipeline.backfill import batch, stale_rows
from pipestate.pipeline.backfill.decide import SiteCounts, StaleRow, decide_counts, decide_unread
from pipestate.pipeline.backfill.storage_check import Counted, DocumentTally, require_known_sites
from pipestate.pipeline.planning import Plan, Result, SubjectOutcome
from pipestate.pipeline.storage import StorageError
from pipestate.pipeline.threshold import THRESHOLD
from pipestate.progress import Progress, untold

__all__ = ["LARGEST_BATCH", "OUTCOMES", "BackfillPlan", "SiteCounts", "apply", "plan", "require_batch_size"]

LARGEST_BATCH = 10_000  # beyond, batches get slower, and workers wait for the rows of one
OUTCOMES = (
    SubjectOutcome.MIGRATED,
    SubjectOutcome.EMPTY,
    SubjectOutcome.MOVED_ON,
    SubjectOutcome.ORPHANED,
    SubjectOutcome.FAILED,
)


@dataclass(frozen=True, slots=True)
class BackfillPlan(Plan[SiteCounts]):
    """The results in the order of their subdomains, and the age that made the rows stale."""

    threshold: timedelta


def plan(
    url: URL, storage: Counted, *, threshold: timedelta = THRESHOLD, on_progress: Progress = untold
) -> BackfillPlan:
    """Decide about every stale row; refuse a storage directory that cannot be the right one."""
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
    url: URL, plan: BackfillPlan, *, batch_size: int | None = None, on_progress: Progress = untold
) -> list[Result[SiteCounts]]:
    """Write the plan; a result differs from it where the world moved on, or where a row was refused.

    Without a size, a batch has as many sites as are written in about 200 ms.
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
    """Refuse a size that is no number of sites, or that would make workers wait."""
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
