"""Many at once: upgrades of one database, and workers that are killed and whose jobs are delivered again."""

import os
import random
import time
from contextlib import ExitStack
from multiprocessing.context import ForkServerProcess
from typing import Any

from sqlalchemy import create_engine

from alembics import ROOT, Chain
from bed import Database
from faults.world import World
from legacy import everything_legacy, fill_legacy
from pipestate.pipeline import finish_job, initialize_stage
from programs import FORKS, start_server, started

WORKERS = 8
SITES = 1000
# How many jobs a worker finishes between two notes of how far it is: what it is given again after a kill.
NOTED = 200


def upgrades_at_once(world: World, number: int) -> list[str]:
    """Start `alembic upgrade 0005` many times on one database: all must end well, once."""
    database = world.postgres.copy_of("legacy", fill_legacy)
    before = everything_legacy(database)
    environment = {**os.environ, "PIPESTATE_DATABASE_URL": database.text}
    with ExitStack() as running:
        programs = [
            running.enter_context(started(["alembic", "upgrade", "0005"], cwd=ROOT, environment=environment))
            for _ in range(number)
        ]
        done = [program.wait() for program in programs]
    told = [f"exit {each.returncode}: {each.stderr[-300:]}" for each in done if each.returncode]
    if Chain(database).revision() != "0005" or everything_legacy(database) != before:
        told.append("the database is not as one upgrade leaves it")
    world.postgres.drop(database)
    return told


def finished_jobs(world: World, jobs: int, kills: int) -> tuple[int, list[str]]:
    """Finish jobs from eight processes, kill some of them again and again, deliver their jobs once more.

    Return how often `finish_job` was called at least, and what is wrong with the counters.
    """
    database = world.postgres.create()
    Chain(database).upgrade("0005")
    per_site = jobs // SITES
    with database.begin() as connection:
        for number in range(SITES):
            connection.exec_driver_sql(f"INSERT INTO sites (subdomain) VALUES ('site{number}')")
            initialize_stage(connection, f"site{number}", "ocr", per_site)
    start_server()
    done = FORKS.Array("q", WORKERS)
    workers = [_start(database, worker, per_site, done) for worker in range(WORKERS)]
    chance, killed = random.Random(3), 0
    share = SITES * per_site // WORKERS
    while any(each.is_alive() for each in workers):
        time.sleep(0.2)
        progress = sum(done[:]) / (share * WORKERS)
        if killed < kills and progress > killed / kills:
            victim = chance.randrange(WORKERS)
            workers[victim].kill()
            workers[victim].join()
            workers[victim] = _start(database, victim, per_site, done)  # from where it last noted on
            killed += 1
    for worker in workers:
        worker.join()
    told = _wrong_counters(database, per_site)
    if killed < kills:
        told.append(f"only {killed} of {kills} workers were killed")
    world.postgres.drop(database)
    return SITES * per_site, told


def _start(database: Database, worker: int, per_site: int, done: Any) -> ForkServerProcess:
    url = database.url.render_as_string(hide_password=False)
    process = FORKS.Process(target=_work, args=(url, worker, per_site, done))
    process.start()
    return process


def _work(url: str, worker: int, per_site: int, done: Any) -> None:
    """Finish this worker's share of every site's jobs, each in a transaction of its own."""
    engine = create_engine(url)
    with engine.connect() as connection:
        share = range(worker, SITES * per_site, WORKERS)
        for position in range(done[worker], len(share)):
            number = share[position]
            error = "broken" if number % 13 == 0 else None
            finish_job(connection, f"site{number % SITES}", "ocr", error=error, job_key=f"job {number}")
            connection.commit()
            if position % NOTED == NOTED - 1:
                done[worker] = position + 1
    done[worker] = len(share)


def _wrong_counters(database: Database, per_site: int) -> list[str]:
    jobs = SITES * per_site
    wrong = database.value(
        f"SELECT count(*) FROM sites WHERE ocr_completed + ocr_failed <> {per_site} OR ocr_total <> {per_site}"
    )
    failed = database.value("SELECT sum(ocr_failed) FROM sites")
    claims = database.value("SELECT count(*) FROM pipeline_claim WHERE attempts = 1")
    told = [f"{wrong} sites have wrong counts"] if wrong else []
    told += (
        [f"{failed} jobs failed, not {len(range(0, jobs, 13))}"] if failed != len(range(0, jobs, 13)) else []
    )
    return told + ([f"{claims} sites were claimed once, not {SITES}"] if claims != SITES else [])
