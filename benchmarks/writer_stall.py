"""How long a writer of `sites` stands still while its schema changes.

Writers update single rows while something else happens: the chain up to 0005, 0006 and 0007, nothing
at all, 001's SQL through psql, a plain DROP of what 0006 and 0007 put into the archive. All start from
copies of one database, on a server that does not wait for its disk. The stall of an arm is the longest
single statement of any writer, from the end of the warm-up to a second after the work is done.

- Between two statements a writer rests for a millisecond: a stall is then a wait for a lock rather
  than for one of the cores that the writers fill.
- The longest of many statements grows with their number, so there are two idle arms for our two, each
  as long as its counterpart.
- What an arm causes comes back in every round, what the rest of the machine causes does not: each
  figure is that of the arm's quietest round, for every arm alike.

    python benchmarks/writer_stall.py --rounds 3
"""

import argparse
import multiprocessing
import os
import random
import statistics
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

import psycopg2
from sqlalchemy.engine import URL

from _common import LEGACY, execute, plain, psql, upgrade
from pipestate.embedded import embedded_server

WARM_UP_S, AFTERWARDS_S, IDLE_S, REST_S = 2.0, 1.0, 10.0, 0.001
MOST_OF_SEED, MOST_OF_IDLE = 1 / 30, 4.0
WRITE = "UPDATE sites SET pages = pages + 1 WHERE subdomain = %s"

STAGES = ("fetch", "ocr", "compilation", "extraction", "deploy")
SEED_COLUMNS = [
    *("current_stage VARCHAR", "started_at TIMESTAMP", "updated_at TIMESTAMP"),
    *(f"{stage}_{what} INT DEFAULT 0" for stage in STAGES for what in ("total", "completed", "failed")),
    *("coordinator_enqueued BOOLEAN DEFAULT FALSE", "last_error_stage VARCHAR"),
    *("last_error_message TEXT", "last_error_at TIMESTAMP"),
]
SEED_EXPAND = [
    *(f"ALTER TABLE sites ADD COLUMN IF NOT EXISTS {column}" for column in SEED_COLUMNS),
    "CREATE INDEX IF NOT EXISTS idx_sites_current_stage ON sites(current_stage)",
    "CREATE INDEX IF NOT EXISTS idx_sites_updated_at ON sites(updated_at)",
    "CREATE INDEX IF NOT EXISTS idx_sites_coordinator_enqueued ON sites(subdomain, coordinator_enqueued) "
    "WHERE coordinator_enqueued = FALSE",
    "COMMENT ON COLUMN sites.current_stage IS 'Current pipeline stage'",
    "COMMENT ON COLUMN sites.coordinator_enqueued IS 'Prevents duplicate coordinators'",
]
LEGACY_COLUMNS = ("status", "extraction_status", "last_updated", "last_deployed", "last_extracted")
PLAIN_CONTRACT = [
    "DROP TABLE site_progress",
    *(f"ALTER TABLE sites DROP COLUMN {column}" for column in LEGACY_COLUMNS),
]


@dataclass(frozen=True, slots=True)
class Load:
    sites: int
    writers: int


@dataclass(frozen=True, slots=True)
class Arm:
    """What the writers saw; times in seconds, `at` is when the longest stall began."""

    name: str
    seconds: float
    writes: int
    p99: float
    longest: float
    at: float


# --- Writers ---------------------------------------------------------------------------------------


def write_on(url: str, sites: int, stop: Event, parent: Connection) -> None:
    """A writer's process: say when ready, write until told to stop, send when and how long."""
    begun, took = array("d"), array("d")
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        parent.send(None)
        while not stop.is_set():
            key = f"site-{random.randint(1, sites)}"
            start = time.monotonic()
            cursor.execute(WRITE, (key,))
            took.append(time.monotonic() - start)
            begun.append(start)
            time.sleep(REST_S)
    parent.send((begun, took))


def measure(name: str, database: URL, load: Load, work: Callable[[], None]) -> Arm:
    execute(database, "CHECKPOINT")
    spawn = multiprocessing.get_context("spawn")
    stop, ends = spawn.Event(), []
    for _ in range(load.writers):
        ours, theirs = spawn.Pipe()
        arguments = (plain(database), load.sites, stop, theirs)
        spawn.Process(target=write_on, args=arguments, daemon=True).start()
        theirs.close()
        ends.append(ours)
    for end in ends:
        end.recv()
    time.sleep(WARM_UP_S)
    start = time.monotonic()
    work()
    seconds = time.monotonic() - start
    time.sleep(AFTERWARDS_S)
    stop.set()
    seen = [within(start, *end.recv()) for end in ends]
    if not all(seen):
        sys.exit(f"{name}: a writer wrote nothing")
    every = [write for writer in seen for write in writer]
    longest, at = max(every)
    p99 = statistics.quantiles((took for took, _ in every), n=100)[-1]
    arm = Arm(name, seconds, len(every), p99, longest, at)
    print(row(arm), flush=True)
    return arm


def within(start: float, begun: Sequence[float], took: Sequence[float]) -> list[tuple[float, float]]:
    """How long and when, of the writes that were not over at the start."""
    return [(t, b - start) for b, t in zip(begun, took, strict=True) if b + t >= start]


# --- Databases and what happens to them ------------------------------------------------------------


@contextmanager
def copy_of(template: URL, server: URL, name: str) -> Iterator[URL]:
    """A database that starts like every other; gone afterwards, so that autovacuum leaves it alone."""
    execute(server, f"CREATE DATABASE {name} TEMPLATE {template.database}")
    yield server.set(database=name)
    execute(server, f"DROP DATABASE {name} WITH (FORCE)")


# --- Rounds ----------------------------------------------------------------------------------------


def run_round(template: URL, server: URL, load: Load) -> list[Arm]:
    with copy_of(template, server, "chain") as database:
        expand = measure("upgrade to 0005", database, load, partial(upgrade, database, "0005"))
        contract = measure("0006 and 0007", database, load, partial(upgrade, database, "head"))
    with copy_of(template, server, "idle") as database:
        waits = [partial(time.sleep, max(arm.seconds, IDLE_S)) for arm in (expand, contract)]
        idle = [measure("no migration", database, load, wait) for wait in waits]
    with copy_of(template, server, "seed") as database:
        seed = measure("001's SQL in psql", database, load, partial(psql, database, SEED_EXPAND))
        drops = measure("plain DROPs in psql", database, load, partial(psql, database, PLAIN_CONTRACT))
    return [expand, contract, *idle, seed, drops]


def row(arm: Arm) -> str:
    times = f"{arm.p99 * 1e3:>10.2f}{arm.longest * 1e3:>14.1f}{arm.at:>9.1f}"
    return f"{arm.name:<22}{arm.seconds:>9.1f}{arm.writes:>11,}{times}"


def judge(rounds: list[list[Arm]]) -> bool:
    quietest = [min(arm.longest for arm in arms) * 1e3 for arms in zip(*rounds, strict=True)]
    ours, idle, seed = max(quietest[0:2]), max(quietest[2:4]), quietest[4]
    print(f"\nlongest stall: ours {ours:.1f} ms, idle {idle:.1f} ms, 001 {seed:.1f} ms")
    verdicts = {True: "ok", False: "MISSED"}
    enough = [ours <= seed * MOST_OF_SEED, ours <= idle * MOST_OF_IDLE]
    print(f"ours / 001  = 1/{seed / ours:<6.1f} target: at most 1/30  {verdicts[enough[0]]}")
    print(f"ours / idle = {ours / idle:<8.2f} target: at most 4     {verdicts[enough[1]]}")
    return all(enough)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sites", type=int, default=2_000_000)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    load = Load(options.sites, options.writers)
    cores = f"{os.cpu_count()} cores (load before: {os.getloadavg()[0]:.1f})"
    print(f"{load.sites:,} sites, {load.writers} writers, {cores}\n")
    print(f"{'':<22}{'seconds':>9}{'writes':>11}{'p99 ms':>10}{'longest ms':>14}{'at s':>9}", flush=True)
    with embedded_server() as server:
        template = server.set(database="legacy")
        execute(server, "CREATE DATABASE legacy")
        execute(template, *LEGACY, sites=load.sites)
        rounds = [run_round(template, server, load) for _ in range(options.rounds)]
    return 0 if judge(rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
