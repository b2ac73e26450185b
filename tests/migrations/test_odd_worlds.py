"""Adopted databases that are not as the documents have them: there and back without a loss."""

from alembics import Chain
from bed import Database

SITES = """CREATE TABLE sites (subdomain varchar PRIMARY KEY, name varchar, status varchar,
    extraction_status varchar DEFAULT 'pending', last_updated varchar, last_deployed varchar, last_extracted varchar)"""
SITE_PROGRESS = """CREATE TABLE site_progress (subdomain varchar PRIMARY KEY, current_stage varchar,
    stage_total int DEFAULT 0 NOT NULL, stage_completed int DEFAULT 0 NOT NULL,
    started_at timestamp, updated_at timestamp)"""
ROWS = (
    "INSERT INTO sites (subdomain, name, status, extraction_status, last_updated, last_deployed) VALUES "
    "('a', 'A', 'deployed', 'completed', '2025-01-01T00:00:00', '2025-01-02'), "
    "('b', 'B', 'needs_ocr', 'pending', '2025-01-03T00:00:00', NULL)",
    "INSERT INTO site_progress (subdomain, current_stage, stage_total, stage_completed, started_at, updated_at) "
    "VALUES ('a', 'completed', 1, 1, '2025-01-01', '2025-01-01'), ('b', 'ocr', 7, 3, '2025-01-01', '2025-01-01')",
)
VALUES = "SELECT subdomain, status, extraction_status, last_updated, last_deployed FROM sites ORDER BY subdomain"
PROGRESS = "SELECT subdomain, current_stage, stage_total, stage_completed FROM site_progress ORDER BY subdomain"


def test_a_legacy_default_that_changes_with_time_does_not_keep_values_from_coming_back(
    database: Database,
) -> None:
    now = "CURRENT_TIMESTAMP" if database.is_sqlite else "(now())::text"
    database.run(
        SITES.replace("last_updated varchar", f"last_updated varchar DEFAULT {now}"), SITE_PROGRESS, *ROWS
    )
    before = database.rows(VALUES)
    chain = Chain(database)
    chain.contract()
    chain.downgrade("0005")
    assert database.rows(VALUES) == before
    database.run("INSERT INTO sites (subdomain) VALUES ('c')")
    assert database.value("SELECT count(*) FROM sites WHERE subdomain = 'c' AND last_updated > '2026'") == 1
