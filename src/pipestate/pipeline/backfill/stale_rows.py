"""Rows of `site_progress` that stand still in OCR: the same ones that the check `backfill-complete` counts.

Read page by page, each on a connection of its own that cannot write: while documents are counted, no
transaction stays open.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import cast

from sqlalchemy import URL, Connection, inspect

from pipestate import db
from pipestate.errors import ConfigError
from pipestate.schema import sites
from pipestate.schema.legacy import site_progress

PAGE = 50_000
NEEDED = ("current_stage", "ocr_total", "ocr_completed", "ocr_failed", "coordinator_enqueued", "updated_at")

# `{age}` is the threshold in seconds, a number of ours: these go to the driver as they stand.
STALE = {
    "postgresql": "p.current_stage = 'ocr' AND "
    "(p.updated_at IS NULL OR p.updated_at < now() - interval '{age} seconds')",
    "sqlite": "p.current_stage = 'ocr' AND (julianday(p.updated_at) IS NULL "
    "OR julianday(p.updated_at) < julianday('now', '-{age} seconds'))",
}
COUNT = "SELECT count(*) FROM site_progress p WHERE {stale}"
# The second bound says nothing new, but spares a merge the sites before it.
READ = (
    "SELECT p.subdomain, p.stage_total, s.subdomain IS NOT NULL, s.current_stage"
    " FROM site_progress p LEFT JOIN sites s ON s.subdomain = p.subdomain{and_s}"
    " WHERE {stale}{and_p} ORDER BY p.subdomain LIMIT {limit}"
)
AFTER = {"postgresql": " AND {}.subdomain > %(after)s", "sqlite": " AND {}.subdomain > :after"}
EXPECTING = "SELECT count(*) FROM site_progress WHERE stage_total > 0"

# subdomain, stage_total, whether it has a site, and where that stands. A tuple: there may be a million.
Row = tuple[str, int | None, bool, str | None]


def stale(dialect: str, threshold: timedelta) -> str:
    """The condition on a row `p` of `site_progress`."""
    return STALE[dialect].format(age=f"{threshold.total_seconds():.3f}")


def count(url: URL, threshold: timedelta) -> int:
    with db.reader(url) as connection:
        require_both_accounts(connection)
        query = COUNT.format(stale=stale(connection.dialect.name, threshold))
        return int(connection.exec_driver_sql(query).scalar_one())


def read(url: URL, threshold: timedelta) -> Iterator[Row]:
    """All of them, in the order of their subdomains."""
    page = _page(url, threshold, None)
    while page:
        yield from page
        page = _page(url, threshold, page[-1][0])


def require_both_accounts(connection: Connection) -> None:
    """The old account and the new one stand side by side between 0003 and 0006."""
    found = inspect(connection)
    has_sites = found.has_table(sites.name)
    columns = {column["name"] for column in found.get_columns(sites.name)} if has_sites else set()
    if not columns.issuperset(NEEDED):
        raise ConfigError("this database has no counters on sites yet: run alembic upgrade 0005 first")
    if not found.has_table(site_progress.name):
        raise ConfigError("site_progress is gone since revision 0006: there is nothing to backfill any more")


def _page(url: URL, threshold: timedelta, after: str | None) -> list[Row]:
    with db.reader(url) as connection:
        dialect = connection.dialect.name
        if dialect == "postgresql":  # a page is a range of the keys, whatever the statistics say
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        bound = "" if after is None else AFTER[dialect]
        query = READ.format(
            stale=stale(dialect, threshold), and_p=bound.format("p"), and_s=bound.format("s"), limit=PAGE
        )
        parameters = {} if after is None else {"after": after}
        cursor = connection.exec_driver_sql(query, parameters).cursor
        return cast("list[Row]", cursor.fetchall() if cursor else [])
