"""Initial state of the demo: 300 sites, 105 of them stuck in OCR, three sources of truth."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, NullPool, create_engine, insert, text

from pipestate.pipeline.schema import legacy_metadata, legacy_sites, site_progress

if TYPE_CHECKING:
    from redis import Redis

OWNER = "civic"
SITES = 300
STUCK = 105
WITHOUT_TEXT = 2
DOCUMENTS = 15
WITH_TEXT = 12
NEW_SITE = "new.example.gov"
DEFERRED = 82
FAILED = 2695


def name(number: int) -> str:
    return f"site{number:03}.example.gov"


def create_owner(server: URL) -> URL:
    """Create a database and an ordinary role that owns it; the demo needs no superuser."""
    engine = create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {OWNER} LOGIN")
        connection.exec_driver_sql(f"CREATE DATABASE {OWNER} OWNER {OWNER}")
    return URL.create("postgresql", username=OWNER, database=OWNER, host=server.host, query=server.query)


def build(connection: Connection) -> None:
    """Create the application's own tables, in their state before the counters."""
    legacy_metadata.create_all(connection)
    connection.execute(insert(legacy_sites), [_site(number) for number in range(SITES)])
    connection.execute(insert(site_progress), [_progress(number) for number in range(SITES)])
    connection.execute(text("UPDATE site_progress SET updated_at = now() - interval '5 days'"))
    # The old code is still running: it has just written to a few sites.
    connection.execute(
        text("UPDATE site_progress SET updated_at = now() WHERE subdomain >= :first"),
        {"first": name(SITES - 3)},
    )


def write_files(root: Path) -> None:
    """Write the files of the stuck sites: PDFs, and the text of most of them; and the PDFs of a new site."""
    texts = {name(number): 0 if number >= STUCK - WITHOUT_TEXT else WITH_TEXT for number in range(STUCK)}
    for site, with_text in (texts | {NEW_SITE: 0}).items():
        for kind, suffix, count in (("pdfs", "pdf", DOCUMENTS), ("txt", "txt", with_text)):
            meeting = root / site / kind / "Council"
            meeting.mkdir(parents=True)
            for day in range(1, count + 1):
                (meeting / f"2026-01-{day:02}.{suffix}").touch()


def fill_queues(redis: "Redis", root: Path) -> None:
    """Fill RQ with failed jobs, and with coordinators that wait for them for ever."""
    from rq import Queue
    from rq.job import Job, JobStatus

    compilation, ocr = (Queue(queue, connection=redis) for queue in ("compilation", "ocr"))
    with redis.pipeline() as pipeline:
        for number in range(FAILED):
            site = name(number % STUCK)
            path = root / site / "pdfs" / "Council" / f"2026-01-{number % DOCUMENTS + 1:02}.pdf"
            kwargs = {"subdomain": site, "pdf_path": str(path), "run_id": "first"}
            job = Job.create(
                "clerk.workers.ocr_page_job",
                kwargs=kwargs,
                connection=redis,
                origin="ocr",
                status=JobStatus.FAILED,
                id=f"ocr-{number}",
            )
            job.save(pipeline=pipeline)
            ocr.failed_job_registry.add(job, exc_string="TimeoutError: 180 seconds", pipeline=pipeline)
        for number in range(DEFERRED):
            waits_for: list[Any] = [f"ocr-{parent}" for parent in range(number, FAILED, STUCK)]
            job = Job.create(
                "clerk.workers.ocr_complete_coordinator",
                kwargs={"subdomain": name(number), "run_id": "first"},
                connection=redis,
                origin="compilation",
                status=JobStatus.DEFERRED,
                depends_on=waits_for,
            )
            job.save(pipeline=pipeline)
            compilation.deferred_job_registry.add(job, pipeline=pipeline)
        pipeline.execute()


TIMES = text(
    "SELECT format('%I.%I', table_schema, table_name), "
    "string_agg(format('%1$I = %1$I - interval ''1 day''', column_name), ', ') "
    "FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) "
    "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE' "
    "AND data_type LIKE 'timestamp%' GROUP BY table_schema, table_name"
)


def let_a_day_pass(connection: Connection) -> None:
    """Move every time in the demo's database one day into the past, including the ledger's."""
    for table, assignments in connection.execute(TIMES).all():
        connection.exec_driver_sql(f"UPDATE {table} SET {assignments}")


def _site(number: int) -> dict[str, str | None]:
    stuck = number < STUCK
    return {
        "subdomain": name(number),
        "status": "needs_ocr" if stuck else "deployed",
        "extraction_status": "pending" if stuck else "completed",
        "last_updated": f"2026-01-{number % 28 + 1:02}T08:00:00",
        "last_deployed": None if stuck else f"2026-01-{number % 28 + 1:02}T09:00:00",
        "last_extracted": None,
    }


def _progress(number: int) -> dict[str, str | int]:
    stuck = number < STUCK
    return {
        "subdomain": name(number),
        "current_stage": "ocr" if stuck else "completed",
        "stage_total": DOCUMENTS if stuck else 1,
        "stage_completed": WITH_TEXT if stuck else 1,
    }
