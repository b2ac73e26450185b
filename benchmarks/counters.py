"""How many jobs a second can be finished, beside the least that could be done and beside 001's way.

- `raw`: psycopg2 alone, one UPDATE ... RETURNING and a commit; it counts and claims nothing.
- `finish_job`: counts, and claims the coordinator; with `job_key` it also counts a redelivery once.
- `three calls`: 001's increment_completed, should_trigger_coordinator and claim_coordinator_enqueue,
  each in a transaction of its own on a pooled connection, with statements built at every call.
- `two calls`: the same for a job that is not the last, which has nothing to claim. For information.
- `finish_job without the indexes`: on a copy of the database that lacks the four indexes of 0003 which only checks
  and gates read: what these cost.
- `old progress` and `old last_updated`: what the old code writes until the contract, `site_progress.updated_at` and
  `sites.last_updated`, with and without the same indexes. Both columns are in one of them, so that PostgreSQL can no
  longer update the row in its page alone.

Each job is one transaction, on one of 1,000 sites, on a server that waits for its disk unless --relaxed.
Connections are processes. The ways take turns in short rounds, there and back, each on rows of
its own; a ratio is the median of the ratios within a round.

    python benchmarks/counters.py --rounds 30
"""

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import count
from multiprocessing.connection import Connection as Pipe
from operator import truediv
from typing import Any

import psycopg2
from sqlalchemy import URL, create_engine, select, update

from _common import execute, plain, upgrade
from _results import keep
from pipestate.database.embedded import embedded_server
from pipestate.pipeline import finish_job
from pipestate.pipeline.schema import sites

SITES = 1000
LEAST = {"raw": 0.85, "three calls": 3.0}
LEAST_WITH_INDEXES = {"finish_job": 0.9, "old progress": 0.7, "old last_updated": 0.7}
WITHOUT = " without the indexes"
RAW = (
    "UPDATE sites SET ocr_completed = ocr_completed + 1, updated_at = now() WHERE subdomain = %s"
    " RETURNING ocr_completed, ocr_failed, ocr_total"
)

OLD_PROGRESS = (
    "UPDATE site_progress SET stage_completed = stage_completed + 1, updated_at = now() WHERE subdomain = %s"
)
OLD_LAST_UPDATED = (
    "UPDATE sites SET last_updated = to_char(now(), 'YYYY-MM-DD\"T\"HH24:MI:SS.US') WHERE subdomain = %s"
)

Finish = Callable[[str, str], None]


def raw(connection: Any, site: str, _key: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(RAW, (site,))
        cursor.fetchone()
    connection.commit()


def old(statement: str, connection: Any, site: str, _key: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, (site,))
    connection.commit()


def ours(connection: Any, site: str, _key: str) -> None:
    finish_job(connection, site, "ocr")
    connection.commit()


def ours_keyed(connection: Any, site: str, key: str) -> None:
    finish_job(connection, site, "ocr", job_key=key)
    connection.commit()


def increment_completed(engine: Any, subdomain: str, stage: str) -> None:
    with engine.begin() as conn:
        column = getattr(sites.c, f"{stage}_completed")
        values = {f"{stage}_completed": column + 1, "updated_at": datetime.now(UTC)}
        conn.execute(update(sites).where(sites.c.subdomain == subdomain).values(**values))


def should_trigger_coordinator(engine: Any, subdomain: str, stage: str) -> bool:
    with engine.begin() as conn:
        site = conn.execute(select(sites).where(sites.c.subdomain == subdomain)).fetchone()
    done = getattr(site, f"{stage}_completed") + getattr(site, f"{stage}_failed")
    return done == getattr(site, f"{stage}_total") and not site.coordinator_enqueued


def claim_coordinator_enqueue(engine: Any, subdomain: str) -> bool:
    free = (sites.c.subdomain == subdomain) & (sites.c.coordinator_enqueued == False)  # noqa: E712
    with engine.begin() as conn:
        values = {"coordinator_enqueued": True, "updated_at": datetime.now(UTC)}
        return bool(conn.execute(update(sites).where(free).values(**values)).rowcount == 1)


def three_calls(engine: Any, site: str, _key: str) -> None:
    increment_completed(engine, site, "ocr")
    should_trigger_coordinator(engine, site, "ocr")
    claim_coordinator_enqueue(engine, site)


def two_calls(engine: Any, site: str, _key: str) -> None:
    increment_completed(engine, site, "ocr")
    should_trigger_coordinator(engine, site, "ocr")


# What is compared with and without the indexes stands side by side: the machine is then the same for both.
WAYS = (
    "raw",
    *("finish_job", f"finish_job{WITHOUT}"),
    *("finish_job with job_key", "three calls", "two calls"),
    *("old progress", f"old progress{WITHOUT}"),
    *("old last_updated", f"old last_updated{WITHOUT}"),
)
READ_BY_CHECKS = (
    *("idx_sites_contradictions", "idx_sites_legacy_times", "idx_sites_without_stage"),
    *("idx_site_progress_touched", "idx_site_progress_ocr"),
)
LEAN = "lean"  # the database without them


def worker(url: URL, number: int, pipe: Pipe) -> None:
    """Do as many jobs as the parent says, in the way that it says."""
    engine, lean = create_engine(url), create_engine(url.set(database=LEAN))
    with (
        closing(psycopg2.connect(plain(url))) as driver,
        engine.connect() as connection,
        lean.connect() as without,
        closing(psycopg2.connect(plain(url.set(database=LEAN)))) as lean_driver,
    ):
        ways: tuple[Finish, ...] = (
            partial(raw, driver),
            *(partial(ours, connection), partial(ours, without)),
            *(partial(ours_keyed, connection), partial(three_calls, engine), partial(two_calls, engine)),
            *(partial(old, OLD_PROGRESS, driver), partial(old, OLD_PROGRESS, lean_driver)),
            *(partial(old, OLD_LAST_UPDATED, driver), partial(old, OLD_LAST_UPDATED, lean_driver)),
        )
        finish = dict(zip(WAYS, ways, strict=True))
        job = count(number * SITES // 8)
        while order := pipe.recv():
            way, jobs = order
            for _ in range(jobs):
                at = next(job)
                finish[way](f"{rows_of(way)}-{at % SITES}", f"{number}-{at}")
            pipe.send(None)
    engine.dispose()
    lean.dispose()


def rows_of(way: str) -> str:
    """Name the rows of a way: those of both databases are called alike."""
    return way.removesuffix(WITHOUT).replace(" ", "_")


def rates(url: URL, connections: int, rounds: int, jobs: int) -> dict[str, list[float]]:
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for number in range(connections):
        here, there = context.Pipe()
        process = context.Process(target=worker, args=(url, number, there))
        process.start()
        pipes.append(here)
        processes.append(process)
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(rounds + 1):
        for way in WAYS if turn % 2 else reversed(WAYS):
            took = together(pipes, way, max(1, jobs // connections))
            if turn:  # the first round warms up
                seconds[way].append(took)
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(None)
        process.join()
    done = max(1, jobs // connections) * connections
    return {way: [done / took for took in times] for way, times in seconds.items()}


def together(pipes: list[Any], way: str, jobs: int) -> float:
    start = time.perf_counter()
    for pipe in pipes:
        pipe.send((way, jobs))
    for pipe in pipes:
        pipe.recv()
    return time.perf_counter() - start


def report(connections: int, rate: dict[str, list[float]], disk: str) -> bool:
    print(f"{connections} connection{'s' if connections > 1 else ''}")
    ratio = {way: statistics.median(map(truediv, rate["finish_job"], theirs)) for way, theirs in rate.items()}
    for way, theirs in rate.items():
        if way.startswith("old"):
            print(f"  {way:<42}{statistics.median(theirs):>8.0f} jobs/s")
            continue
        least = LEAST.get(way)
        verdict = "" if least is None else f" (at least {least}) {'ok' if ratio[way] >= least else 'MISSED'}"
        print(
            f"  {way:<42}{statistics.median(theirs):>8.0f} jobs/s   finish_job: {ratio[way]:.2f} x{verdict}"
        )
    met = [
        keep(
            f"finish_job beside {way}, {connections} at once{disk}",
            ratio[way],
            f"at least {least}",
            ok=ratio[way] >= least,
        )
        for way, least in LEAST.items()
    ]
    for way, least in LEAST_WITH_INDEXES.items():
        cost = statistics.median(map(truediv, rate[way], rate[way + WITHOUT]))
        print(
            f"  {way}, with the checks' indexes beside without: {cost:.2f} x (at least {least}) "
            f"{'ok' if cost >= least else 'MISSED'}"
        )
        name = f"{way}, with the checks' indexes beside without, {connections} at once{disk}"
        met.append(keep(name, cost, f"at least {least}", ok=cost >= least))
    return all(met)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=160, help="jobs of one way in one round")
    parser.add_argument("--relaxed", action="store_true", help="a server that does not wait for its disk")
    options = parser.parse_args()
    with embedded_server(durable=not options.relaxed) as url:
        upgrade(url, "0005")
        names = sorted({rows_of(way) for way in WAYS})
        execute(
            url,
            "INSERT INTO sites (subdomain, current_stage, ocr_total)"
            f" SELECT w || '-' || n, 'ocr', 100000000 FROM generate_series(0, {SITES - 1}) n,"
            f" unnest(ARRAY{names}) w",
            "INSERT INTO site_progress (subdomain, current_stage, updated_at) SELECT subdomain, 'ocr', now() FROM sites",
            "VACUUM ANALYZE sites, site_progress",
        )
        server = url.set(database="template1")
        execute(server, f"CREATE DATABASE {LEAN} TEMPLATE {url.database}")
        execute(url.set(database=LEAN), f"DROP INDEX {', '.join(READ_BY_CHECKS)}", "VACUUM ANALYZE")
        disk = ", relaxed" if options.relaxed else ""
        results = [report(n, rates(url, n, options.rounds, options.jobs), disk) for n in (1, 8)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
