"""Many processes finish jobs of the same sites at once, on real PostgreSQL."""

import random
from collections import Counter

import pytest
from sqlalchemy import create_engine

from pipestate.pipeline import finish_job, initialize_stage
from support.alembic_runs import Migrations
from support.long_form import times
from support.programs import FORKS, start_server
from support.servers import Database

PROCESSES = 8
SITES = times(20, long=200)
JOBS = times(2000, long=100_000)

Job = tuple[str, str, str | None]


def deliveries() -> list[list[Job]]:
    """Every job once, one in ten again, shuffled over the processes; some sites are done without keys."""
    chance = random.Random(7)
    jobs: list[Job] = []
    for number in range(JOBS):
        site = number % SITES
        jobs.append((f"site{site}", f"job {number}", "broken" if number % 13 == 0 else None))
    jobs += chance.sample(jobs, JOBS // 10)
    chance.shuffle(jobs)
    return [jobs[start::PROCESSES] for start in range(PROCESSES)]


def work(url: str, jobs: list[Job], keyed: bool) -> list[str]:
    """A worker: each job in a transaction of its own; returns the sites whose coordinator it claimed."""
    claimed = []
    engine = create_engine(url)
    with engine.connect() as conn:
        for site, key, error in jobs:
            if finish_job(conn, site, "ocr", error=error, job_key=key if keyed else None).claimed:
                claimed.append(site)
            conn.commit()
    engine.dispose()
    return claimed


def run(database: Database, *, keyed: bool) -> Counter[str]:
    url = database.url.render_as_string(hide_password=False)
    with database.begin() as conn:
        for number in range(SITES):
            conn.exec_driver_sql(f"INSERT INTO sites (subdomain) VALUES ('site{number}')")
            initialize_stage(conn, f"site{number}", "ocr", JOBS // SITES)
    shares = [(url, jobs, keyed) for jobs in deliveries()]
    start_server()
    with FORKS.Pool(PROCESSES) as pool:
        return Counter(site for claimed in pool.starmap(work, shares) for site in claimed)


@pytest.mark.scene
def test_counts_are_exact_and_each_site_is_claimed_once(pg_migrations: Migrations) -> None:
    pg_migrations.upgrade("0005")
    claims = run(pg_migrations.database, keyed=True)
    assert claims == Counter(f"site{number}" for number in range(SITES))
    database = pg_migrations.database
    assert database.rows("SELECT sum(ocr_completed + ocr_failed), sum(ocr_failed) FROM sites") == [
        (JOBS, len(range(0, JOBS, 13)))
    ]
    assert database.value("SELECT count(*) FROM sites WHERE ocr_completed + ocr_failed <> ocr_total") == 0
    assert database.value("SELECT count(*) FROM pipeline_claim WHERE attempts = 1") == SITES


def test_without_keys_redeliveries_overshoot_and_each_site_is_still_claimed_once(
    pg_migrations: Migrations,
) -> None:
    pg_migrations.upgrade("0005")
    claims = run(pg_migrations.database, keyed=False)
    assert claims == Counter(f"site{number}" for number in range(SITES))
    total = JOBS + JOBS // 10
    assert pg_migrations.database.value("SELECT sum(ocr_completed + ocr_failed) FROM sites") == total
    assert pg_migrations.database.value("SELECT count(*) FROM pipeline_claim WHERE attempts = 1") == SITES
