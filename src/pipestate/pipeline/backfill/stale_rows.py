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
from pipestate.pipeline.backfill.decide import StaleRow
from pipestate.pipeline.sql import ENGINES, fill
from pipestate.schema import sites
from pipestate.schema.legacy import site_progress

PAGE = 50_000
NEEDED = ("current_stage", "ocr_total", "ocr_completed", "ocr_failed", "coordinator_enqueued", "updated_at")

# What makes a row `p` of `site_progress` stale; `:age` is the threshold in seconds.
STALE = {
    "postgresql": """p.current_stage = 'ocr'
  AND (p.updated_at IS NULL OR p.updated_at < now() - :age * interval '1 second')""",
    "sqlite": """p.current_stage = 'ocr'
  AND (julianday(p.updated_at) IS NULL OR julianday(p.updated_at) < julianday('now') - :age / 86400.0)""",
}
COUNT = """
SELECT count(*)
FROM site_progress p
WHERE {stale}
"""
# A page is a range of the keys, and the first has no lower bound. That of `s` says nothing new, but spares a
# merge the sites before it.
READ = """
SELECT p.subdomain, p.stage_total, s.subdomain IS NOT NULL, s.current_stage
FROM site_progress p
LEFT JOIN sites s ON s.subdomain = p.subdomain{and_s_after}
WHERE {stale}{and_p_after}
ORDER BY p.subdomain
LIMIT :page
"""
# A page is read as a range of the keys, whatever the statistics say.
PAGE_SETTINGS = {"postgresql": ("SET LOCAL enable_seqscan = off",), "sqlite": ()}
EXPECTING = "SELECT count(*) FROM site_progress WHERE stage_total > 0"

COUNT_SQL = {engine: fill(engine, COUNT, stale=STALE[engine]) for engine in ENGINES}
FIRST_SQL = {
    engine: fill(engine, READ, stale=STALE[engine], and_s_after="", and_p_after="") for engine in ENGINES
}
NEXT_SQL = {
    engine: fill(
        engine,
        READ,
        stale=STALE[engine],
        and_s_after=" AND s.subdomain > :after",
        and_p_after="\n  AND p.subdomain > :after",
    )
    for engine in ENGINES
}


def count(url: URL, threshold: timedelta) -> int:
    with db.reader(url) as connection:
        require_both_accounts(connection)
        sql = COUNT_SQL[connection.dialect.name]
        return int(connection.exec_driver_sql(sql, {"age": threshold.total_seconds()}).scalar_one())


def read(url: URL, threshold: timedelta) -> Iterator[StaleRow]:
    """Read all of them, in the order of their subdomains."""
    page = _page(url, threshold, None)
    while page:
        yield from page
        page = _page(url, threshold, page[-1][0])


def require_both_accounts(connection: Connection) -> None:
    """Refuse a database before 0003, which has no counters, and one after 0006, which has nothing to read."""
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
        sql = FIRST_SQL[dialect] if after is None else NEXT_SQL[dialect]
        cursor = connection.exec_driver_sql(sql, parameters).cursor
        return cast("list[StaleRow]", cursor.fetchall() if cursor else [])
