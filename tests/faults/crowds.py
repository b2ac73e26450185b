"""Many at once: upgrades of one database, and workers that are killed and whose jobs are delivered again."""

import random
import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from typing import Any

from sqlalchemy import create_engine

from faults.case import Complaint, compare
from faults.strikes import drop, undisturbed
from faults.subjects import upgrade
from faults.world import World
from pipestate.pipeline import finish_job, initialize_stage
from support.alembic_runs import Migrations
from support.programs import FORKS, start_server, started
from support.servers import Database

WORKERS = 8


def upgrades_at_once(world: World, number: int) -> list[Complaint]:
    """Upgrade one database many times at once: all must end well, and leave what one leaves."""
    reference, case = undisturbed(world, upgrade), upgrade(world)
    with ExitStack() as running:
        programs = [
            running.enter_context(started(case.argv, cwd=case.cwd, environment=case.environment))
            for _ in range(number)
        ]
        done = [program.finish() for program in programs]
    failed = [each for each in done if each.returncode]
    reported = [Complaint("unfinished", f"exit {each.returncode}: {each.stderr[-300:]}") for each in failed]
    reported += [Complaint("tracebacks", each.stderr[-800:]) for each in done if "Traceback" in each.stderr]
    reported += compare(case, reference)
    drop(world, case)
    return reported


@dataclass(frozen=True)
class Load:
    """So many jobs, spread over sites; each of eight workers notes how far it is, and goes on there after a kill."""

    jobs: int
    sites: int

    @classmethod
    def of(cls, jobs: int) -> "Load":
        """Spread at least so many jobs, as many on each site and worker."""
        sites = min(1000, jobs // 40)
        return cls(-(-jobs // (sites * WORKERS)) * sites * WORKERS, sites)

    @property
    def per_site(self) -> int:
        return self.jobs // self.sites

    @property
    def share(self) -> int:
        """How many jobs are one worker's."""
        return self.jobs // WORKERS

    @property
    def noted(self) -> int:
        """How many jobs a worker finishes between two notes: what it is given again after a kill."""
        return max(1, min(200, self.share // 20))

    @property
    def failing(self) -> int:
        return len(range(0, self.jobs, 13))


def finished_jobs(world: World, jobs: int, kills: int) -> tuple[int, int, list[Complaint]]:
    """Finish jobs from eight processes, kill some of them again and again, deliver their jobs once more.

    Return how often `finish_job` was called, how many workers were killed, and what is wrong with the counters.
    """
    load = Load.of(jobs)
    database = world.postgres.copy_of("expanded", lambda each: Migrations(each).upgrade("0005"))
    # No server is stopped here, so nobody need wait for its disk.
    database.run(f"ALTER DATABASE {database.url.database} SET synchronous_commit = off")
    with database.begin() as connection:
        for number in range(load.sites):
            connection.exec_driver_sql(f"INSERT INTO sites (subdomain) VALUES ('site{number}')")
            initialize_stage(connection, f"site{number}", "ocr", load.per_site)
    start_server()
    # Without a lock: whoever is killed while it holds one would stop all others.
    done, calls = (FORKS.Array("q", WORKERS, lock=False) for _ in range(2))
    killed = _run_and_kill(database, load, kills, done, calls)
    reported = _wrong_counters(database, load)
    if killed < kills:
        reported.append(Complaint("too few hits", f"only {killed} of {kills} workers were killed"))
    world.postgres.drop(database)
    return sum(calls[:]), killed, reported


def _run_and_kill(database: Database, load: Load, kills: int, done: Any, calls: Any) -> int:
    """Let the workers run to their end, and kill one of those that still work whenever a share is done."""
    workers = [_start(database, number, load, done, calls) for number in range(WORKERS)]
    chance, killed = random.Random(3), 0
    while working := [number for number, each in enumerate(workers) if each.is_alive()]:
        time.sleep(0.02)
        if killed < kills and sum(done[:]) / load.jobs > killed / kills:
            victim = chance.choice(working)
            workers[victim].kill()
            workers[victim].join()
            killed += workers[victim].exitcode == -signal.SIGKILL
            workers[victim] = _start(database, victim, load, done, calls)
    return killed


def _start(database: Database, worker: int, load: Load, done: Any, calls: Any) -> ForkServerProcess:
    url = database.url.render_as_string(hide_password=False)
    process = FORKS.Process(target=_work, args=(url, worker, load, done, calls))
    process.start()
    return process


def _work(url: str, worker: int, load: Load, done: Any, calls: Any) -> None:
    """Finish this worker's share of every site's jobs, each in a transaction of its own.

    Two workers commit in a call of their own, and so can be killed before it; the others save two round trips.
    """
    commits = worker < 2
    engine = create_engine(url, **({} if commits else {"isolation_level": "AUTOCOMMIT"}))
    with engine.connect() as connection:
        for position in range(done[worker], load.share):
            number = worker + position * WORKERS
            error = "broken" if number % 13 == 0 else None
            site = f"site{position % load.sites}"  # where the others are, too, or have just been
            finish_job(connection, site, "ocr", error=error, job_key=f"job {number}")
            if commits:
                connection.commit()
            calls[worker] += 1
            if position % load.noted == load.noted - 1:
                done[worker] = position + 1
    done[worker] = load.share


def _wrong_counters(database: Database, load: Load) -> list[Complaint]:
    """Compare each site's counters and claim with what its jobs make."""
    counted = f"ocr_completed + ocr_failed - {load.per_site}"
    claims = "SELECT coalesce(sum(attempts), 0) FROM pipeline_claim WHERE subdomain = s.subdomain"
    rows = database.rows(f"SELECT subdomain, {counted}, ({claims})::int - 1 FROM sites s")
    reported = []
    for site, *more in rows:
        for what, number in zip(("jobs", "claims"), more, strict=True):
            if number:
                kind = "lost" if int(str(number)) < 0 else "doubled"
                reported.append(Complaint(kind, f"{site} has {number:+} {what}"))
    failed = database.value("SELECT sum(ocr_failed) FROM sites")
    if failed != load.failing:
        reported.append(Complaint("different", f"{failed} jobs failed, not {load.failing}"))
    return reported
