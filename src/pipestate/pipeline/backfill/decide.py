"""Decide what becomes of a stale row of `site_progress`, from what it expected and the documents that are there.

1. No site of that name: orphaned, nothing is made up for it.
2. The site has a stage of its own already: it has moved on.
3. Nothing there and nothing expected: the site is completed, with the reason.
4. Otherwise its counters become what is there.

Nothing here knows a database or a directory.
"""

from typing import NamedTuple

from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.storage import Documents

NO_DOCUMENTS = "no documents in the storage directory, and site_progress expected none"


# A row of `site_progress` that stands still in OCR: subdomain, stage_total, whether it has a site, and the stage
# of that. A plain tuple, as the driver returns it: there may be a million.
StaleRow = tuple[str, int | None, bool, str | None]


class SiteCounts(NamedTuple):
    """The counters that a site gets. A tuple: a plan keeps a million until the last is counted."""

    subdomain: str
    completed: int = 0
    total: int = 0

    @property
    def failed(self) -> int:
        return self.total - self.completed


def decide_unread(row: StaleRow) -> Result[SiteCounts] | None:
    """Decide what needs no look at the documents; None for the others."""
    subdomain, _, has_site, stage = row
    if not has_site:
        return Result(SiteCounts(subdomain), SubjectOutcome.ORPHANED, "there is no such site")
    return None if stage is None else Result(SiteCounts(subdomain), SubjectOutcome.MOVED_ON)


def decide_counts(subdomain: str, expected: int, documents: Documents) -> Result[SiteCounts]:
    """Decide by the documents, and by how many `site_progress` expected.

    >>> decide_counts("a.gov", 0, Documents({}, frozenset())).outcome
    <SubjectOutcome.EMPTY: 'completed without documents'>
    """
    completed, total = count_documents(expected, documents)
    if total == 0:
        return Result(SiteCounts(subdomain), SubjectOutcome.EMPTY, NO_DOCUMENTS)
    return Result(SiteCounts(subdomain, completed, total), SubjectOutcome.MIGRATED)


def count_documents(expected: int, documents: Documents) -> tuple[int, int]:
    """Count completed and total: what is there; without PDFs, what `site_progress` expected, if that is more.

    >>> count_documents(15, Documents({}, frozenset({"council/2024-01-01"})))
    (1, 15)
    """
    completed = documents.completed
    return completed, documents.total if documents.pdfs else max(expected, completed)
