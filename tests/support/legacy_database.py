"""The old world: what an application looks like before the migrations have ever run on it."""

from collections.abc import Mapping, Sequence
from typing import Any

from support.alembic_runs import Migrations
from support.servers import Database

STATUSES = ("needs_ocr", "needs_extraction", "needs_deploy", "deployed", "no_documents", None)
STAGES = ("ocr", "extraction", "deploy", "completed", "fetch", None)

SITES = """CREATE TABLE sites (
    subdomain VARCHAR NOT NULL PRIMARY KEY, name VARCHAR, state VARCHAR, kind VARCHAR, scraper VARCHAR,
    pages INTEGER CHECK (pages >= 0), start_year INTEGER, extra VARCHAR, country VARCHAR, lat VARCHAR, lng VARCHAR,
    status VARCHAR, extraction_status VARCHAR DEFAULT 'pending', last_updated VARCHAR,
    last_deployed VARCHAR, last_extracted VARCHAR, owner_email VARCHAR)"""
SITE_PROGRESS = """CREATE TABLE site_progress (
    subdomain VARCHAR NOT NULL PRIMARY KEY, current_stage VARCHAR,
    stage_total INTEGER DEFAULT 0 NOT NULL, stage_completed INTEGER DEFAULT 0 NOT NULL,
    started_at {time}, updated_at {time})"""


def fill_legacy(database: Database, *, sites: int = 300) -> None:
    """300 sites of all kinds, their progress, and the application's own version table and index."""
    time = "TIMESTAMP" if database.is_sqlite else "TIMESTAMP WITH TIME ZONE"
    database.run(
        SITES,
        SITE_PROGRESS.format(time=time),
        "CREATE TABLE content_items (id INTEGER PRIMARY KEY, title VARCHAR)",
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)",
        "INSERT INTO alembic_version VALUES ('app_17')",
        "CREATE INDEX app_sites_status ON sites (status, name)",
        "INSERT INTO content_items VALUES (1, 'one'), (2, 'two')",
        *(site_statement(number) for number in range(sites)),
        *(progress_statement(number) for number in range(sites) if number % 7),
    )


def fill_legacy_at(database: Database, revision: str) -> None:
    """Fill the old world, and migrate it to a revision of the expansion."""
    fill_legacy(database)
    Migrations(database).upgrade(revision)


def site_statement(number: int) -> str:
    status = STATUSES[number % len(STATUSES)]
    values = [
        f"site{number:03}.example.gov",
        "Größe O'Neil 100%" if number % 5 == 0 else f"Site {number}",
        status,
        None if number % 11 == 0 else "completed" if number % 4 == 0 else "pending",
        None if status is None else f"2025-12-{number % 28 + 1:02}T10:{number % 60:02}:00",
        f"2025-11-{number % 28 + 1:02}T09:00:00" if status == "deployed" else None,
        "not a date" if number % 13 == 0 else None,
        f"owner{number}@example.com",
    ]
    columns = (
        "subdomain, name, status, extraction_status, last_updated, last_deployed, last_extracted, owner_email"
    )
    return f"INSERT INTO sites ({columns}) VALUES ({', '.join(map(quoted, values))})"


def progress_statement(number: int) -> str:
    stage = STAGES[number % len(STAGES)]
    started = None if number % 9 == 0 else f"2025-12-{number % 28 + 1:02} 08:00:00"
    values = [f"site{number:03}.example.gov", stage, str(number % 20), str(number % 10), started]
    return (
        "INSERT INTO site_progress VALUES "
        f"({', '.join(map(quoted, values))}, '2025-12-{number % 28 + 1:02} 08:30:00')"
    )


def quoted(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


Rows = dict[str, list[tuple[object, ...]]]


def everything_legacy(database: Database, *tables: str) -> Rows:
    """Every row and value of the old world (of those tables), to be compared with later."""
    columns = (
        "subdomain, name, status, extraction_status, last_updated, last_deployed, last_extracted, owner_email"
    )
    queries = {
        "sites": f"SELECT {columns} FROM sites ORDER BY subdomain",
        "site_progress": "SELECT * FROM site_progress ORDER BY subdomain",
        "content_items": "SELECT * FROM content_items ORDER BY id",
        "alembic_version": "SELECT * FROM alembic_version",
    }
    return {table: database.rows(queries[table]) for table in tables or queries}


def without_derived(found: Rows, before: Mapping[str, Sequence[Any]]) -> Rows:
    """Leave out the rows of `site_progress` that a restore derives for carried over sites that never had one."""
    known = {row[0] for row in before.get("site_progress", ())}
    derived = [row for row in found.get("site_progress", ()) if row[0] not in known]
    assert {row[1:4] for row in derived} <= {("completed", 1, 1)}
    return {table: [row for row in rows if row not in derived] for table, rows in found.items()}


def archived_legacy(database: Database) -> Rows:
    """The old world as the contracts hide it."""
    hidden = {
        str(name): str(aside)
        for name, aside in database.rows(
            "SELECT c ->> 'name', c ->> 'hidden' FROM pipestate.soft_drop, jsonb_array_elements(columns) AS c "
            "WHERE state = 'hidden'"
        )
    }
    old = ", ".join(
        hidden[name]
        for name in ("status", "extraction_status", "last_updated", "last_deployed", "last_extracted")
    )
    table = database.value("SELECT '_pipestate_' || id || '_0' FROM pipestate.soft_drop WHERE kind = 'table'")
    return {
        "sites": database.rows(f"SELECT subdomain, name, {old}, owner_email FROM sites ORDER BY subdomain"),
        "site_progress": database.rows(f"SELECT * FROM pipestate_archive.{table} ORDER BY subdomain"),
        "content_items": database.rows("SELECT * FROM content_items ORDER BY id"),
        "alembic_version": database.rows("SELECT * FROM alembic_version"),
    }
