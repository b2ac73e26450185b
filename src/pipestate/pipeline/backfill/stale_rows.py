"""Read stale rows of `site_progress`, and decide by their expected totals and existing documents.

1. The site is missing: the row is orphaned and stays as it is.
2. The site already has a stage: it has moved on.
3. Zero documents exist and zero are expected: the site is completed, with the reason.
4. Otherwise its counters are set from the existing documents.

The last part refuses an implausible storage directory.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import NamedTuple, cast

from sqlalchemy import URL, Connection, func, inspect, select

from pipestate.core.errors import ConfigError
from pipestate.core.progress import Progress, no_progress
from pipestate.database import connections as db
from pipestate.pipeline.planning import Plan, Result, SubjectOutcome
from pipestate.pipeline.schema import site_progress, sites
from pipestate.pipeline.sql import ENGINES, fill
from pipestate.pipeline.stages import THRESHOLD
from pipestate.pipeline.storage import Storage, StorageError

NAMES_AT_ONCE = 500
FEW_SITES = 10  # a smaller sample proves nothing
LEAST_SHARE = 10  # one site in ten must have a document
WHAT_NEXT = "nothing was written; check that it is mounted, and --storage-dir or STORAGE_DIR"
NO_DOCUMENTS = "no documents in the storage directory, and site_progress expected none"


# A row of `site_progress` stalled in OCR: subdomain, stage_total, whether its site exists, and the site's
# stage. A plain tuple, as the driver returns it: there may be a million.
StaleRow = tuple[str, int | None, bool, str | None]


class SiteCounts(NamedTuple):
    """New counters of a site. A tuple, because a plan may hold a million of them."""

    subdomain: str
    completed: int = 0
    total: int = 0

    @property
    def failed(self) -> int:
        return self.total - self.completed


@dataclass(slots=True)
class DocumentTally:
    """Number of sites with documents, among the sites that should have some."""

    expected: int = 0
    found: int = 0

    def require(self) -> None:
        """Refuse if too few sites have their expected documents."""
        if self.expected >= FEW_SITES and self.found * LEAST_SHARE < self.expected:
            raise ConfigError(
                f"only {self.found} of {self.expected} sites that should have documents have any in the "
                f"storage directory: {WHAT_NEXT}"
            )


@dataclass(frozen=True, slots=True)
class BackfillPlan(Plan[SiteCounts]):
    """Results in the order of their subdomains, and the age that made the rows stale."""

    threshold: timedelta


def plan(
    url: URL, storage: Storage, *, threshold: timedelta = THRESHOLD, on_progress: Progress = no_progress
) -> BackfillPlan:
    """Decide about every stale row; refuse an implausible storage directory."""
    with db.reader(url) as connection:
        require_both_accounts(connection)
        counts = connection.exec_driver_sql(
            COUNT_SQL[connection.dialect.name], {"age": threshold.total_seconds()}
        )
        total, expecting = counts.one()
        if expecting:
            require_known_sites(connection, storage, expecting)
    tally = DocumentTally()
    expected: list[Result[SiteCounts]] = []
    for row in _read(url, threshold):
        expected.append(decide(row, storage, tally))
        on_progress(len(expected), max(total, len(expected)))
    tally.require()
    return BackfillPlan(expected, threshold)


def decide(row: StaleRow, storage: Storage, tally: DocumentTally) -> Result[SiteCounts]:
    """Decide about a row, and count in the tally whether its expected documents exist.

    Without PDFs, the total is at least the expected number.
    """
    subdomain, stage_total, has_site, stage = row
    if not has_site:
        return Result(SiteCounts(subdomain), SubjectOutcome.ORPHANED, "there is no such site")
    if stage is not None:
        return Result(SiteCounts(subdomain), SubjectOutcome.MOVED_ON)
    try:
        documents = storage.documents(subdomain)
    except StorageError as error:
        return Result(SiteCounts(subdomain), SubjectOutcome.FAILED, str(error))
    expected, completed = max(stage_total or 0, 0), len(documents.texts)
    if expected:
        tally.expected += 1
        tally.found += bool(documents.pdfs or completed)
    total = documents.total if documents.pdfs else max(expected, completed)
    if total == 0:
        return Result(SiteCounts(subdomain), SubjectOutcome.EMPTY, NO_DOCUMENTS)
    return Result(SiteCounts(subdomain, completed, total), SubjectOutcome.MIGRATED)


# Rows of `site_progress` stalled in OCR: the same rows that the check `backfill-complete` counts.
# Each page is read on its own read-only connection, so no transaction stays open while documents are counted.


PAGE = 50_000
NEEDED = ("current_stage", "ocr_total", "ocr_completed", "ocr_failed", "coordinator_enqueued", "updated_at")

# Condition for a stale row `p` of `site_progress`; `:age` is the threshold in seconds.
STALE = {
    "postgresql": """p.current_stage = 'ocr'
  AND (p.updated_at IS NULL OR p.updated_at < now() - :age * interval '1 second')""",
    "sqlite": """p.current_stage = 'ocr'
  AND (julianday(p.updated_at) IS NULL OR julianday(p.updated_at) < julianday('now') - :age / 86400.0)""",
}
# The number of stale rows, and of rows that expect documents.
COUNT = """
SELECT count(*) FILTER (WHERE {stale}), count(*) FILTER (WHERE p.stage_total > 0)
FROM site_progress p
"""
# A page is a range of keys; the first page has no lower bound. The planner sees the values, so it drops one
# side of each OR. The redundant bound on `s` lets a merge join skip the earlier sites.
READ = """
SELECT p.subdomain, p.stage_total, s.subdomain IS NOT NULL, s.current_stage
FROM site_progress p
LEFT JOIN sites s ON s.subdomain = p.subdomain AND (:after{text} IS NULL OR s.subdomain > :after)
WHERE {stale}
  AND (:after{text} IS NULL OR p.subdomain > :after)
ORDER BY p.subdomain
LIMIT :page
"""
# A page is read through the index as a range of keys, regardless of statistics.
PAGE_SETTINGS = {"postgresql": ("SET LOCAL enable_seqscan = off",), "sqlite": ()}

COUNT_SQL = {engine: fill(engine, COUNT, stale=STALE[engine]) for engine in ENGINES}
READ_SQL = {
    engine: fill(engine, READ, stale=STALE[engine], text=text)
    for engine, text in (("postgresql", "::text"), ("sqlite", ""))
}


def _read(url: URL, threshold: timedelta) -> Iterator[StaleRow]:
    """Read all stale rows, in the order of their subdomains; the next page is read meanwhile."""
    with ThreadPoolExecutor(1) as ahead:
        page = _page(url, threshold, None)
        while len(page) == PAGE:
            following = ahead.submit(_page, url, threshold, page[-1][0])
            yield from page
            page = following.result()
        yield from page


def require_both_accounts(connection: Connection) -> None:
    """Refuse a database before 0003, which lacks counters, or after 0006, which lacks `site_progress`."""
    found = inspect(connection)
    has_sites = found.has_table(sites.name)
    columns = {column["name"] for column in found.get_columns(sites.name)} if has_sites else set()
    if not columns.issuperset(NEEDED):
        raise ConfigError("this database has no counters on sites yet: run alembic upgrade 0005 first")
    if not found.has_table(site_progress.name):
        raise ConfigError("site_progress is gone since revision 0006: there is nothing to backfill any more")


def _page(url: URL, threshold: timedelta, after: str | None) -> list[StaleRow]:
    with db.reader(url) as connection:
        dialect = connection.dialect.name
        for setting in PAGE_SETTINGS[dialect]:
            connection.exec_driver_sql(setting)
        parameters = {"age": threshold.total_seconds(), "page": PAGE, "after": after}
        cursor = connection.exec_driver_sql(READ_SQL[dialect], parameters).cursor
        return cast("list[StaleRow]", cursor.fetchall() if cursor else [])


def require_known_sites(connection: Connection, storage: Storage, expecting: int) -> None:
    """Refuse if every site of the database lacks a directory, though documents are expected."""
    names = storage.sites()
    while chunk := list(islice(names, NAMES_AT_ONCE)):
        query = select(sites.c.subdomain).where(sites.c.subdomain.in_(chunk)).limit(1)
        if connection.execute(query).first() is not None:
            return
    known = connection.scalar(select(func.count()).select_from(sites))
    raise ConfigError(
        f"none of the {known} sites has a directory in the storage directory, and {expecting} of "
        f"site_progress should have documents: {WHAT_NEXT}"
    )
