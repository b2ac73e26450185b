"""The backfill: sites that stood still in OCR get counters that tell what is in the storage directory.

1. `plan` reads the stale rows of `site_progress`, counts the documents of each site, and says what
   would become of it. It cannot write.
2. `apply` does just that, in batches, one transaction each. What moved on in the meantime stays as it
   is, and so a second run, a killed one, or two at once do no harm.
"""

from datetime import timedelta

from sqlalchemy import URL

from pipestate import db
from pipestate.errors import ConfigError
from pipestate.pipeline.backfill import batch, stale_rows
from pipestate.pipeline.backfill.moves import NO_DOCUMENTS, Move, Outcome, Plan, counts
from pipestate.pipeline.backfill.storage_check import Counted, Tally, require_known_sites
from pipestate.pipeline.storage import StorageError
from pipestate.pipeline.threshold import THRESHOLD
from pipestate.progress import Progress, untold

__all__ = ["BATCH_SIZE", "THRESHOLD", "Move", "Outcome", "Plan", "apply", "plan"]

BATCH_SIZE = 10_000
LARGEST_BATCH = 10_000  # beyond, batches get slower, and workers wait for the rows of one


def plan(
    url: URL, storage: Counted, *, threshold: timedelta = THRESHOLD, on_progress: Progress = untold
) -> Plan:
    """What would become of every stale row. Refused where the storage directory cannot be the right one."""
    total = stale_rows.count(url, threshold)
    require_known_sites(url, storage)
    tally = Tally()
    moves: list[Move] = []
    for row in stale_rows.read(url, threshold):
        moves.append(_move(row, storage, tally))
        on_progress(len(moves), max(total, len(moves)))
    tally.require()
    return Plan(moves, threshold)


def apply(
    url: URL, plan: Plan, *, batch_size: int = BATCH_SIZE, on_progress: Progress = untold
) -> list[Move]:
    """Write the plan; what became of each site, which differs from the plan where the world moved on."""
    require_batch_size(batch_size)
    writes = plan.writes
    otherwise: dict[str, Move] = {}
    with db.reachable(url), db.engine_for(url).connect() as connection:
        for start in range(0, len(writes), batch_size):
            end = min(start + batch_size, len(writes))
            otherwise |= batch.write(connection, writes[start:end], plan.threshold, last=end == len(writes))
            on_progress(end, len(writes))
    return [otherwise.get(move.subdomain, move) for move in plan.moves]


def require_batch_size(size: int) -> None:
    if not 1 <= size <= LARGEST_BATCH:
        raise ConfigError(f"--batch-size {size}: give a number of sites from 1 to {LARGEST_BATCH}")


def _move(row: stale_rows.Row, storage: Counted, tally: Tally) -> Move:
    subdomain, expected, has_site, current_stage = row
    if not has_site:
        return Move(subdomain, Outcome.ORPHANED, reason="there is no such site")
    if current_stage is not None:
        return Move(subdomain, Outcome.MOVED_ON)
    try:
        documents = storage.documents(subdomain)
    except StorageError as error:
        return Move(subdomain, Outcome.FAILED, reason=str(error))
    if (expected or 0) > 0:
        tally.expected += 1
        tally.found += bool(documents.pdfs or documents.texts)
    completed, total = counts(max(expected or 0, 0), documents)
    if total == 0:
        return Move(subdomain, Outcome.EMPTY, reason=NO_DOCUMENTS)
    return Move(subdomain, Outcome.MIGRATED, completed, total)
