"""How long a writer of `sites` waits while its schema changes.

Writers update single rows while something else happens: the migrations up to 0005, 0006 and 0007, the way back
to 0005, nothing at all, 001's SQL through psql, a plain DROP of what 0006 and 0007 put into the archive. All
start from copies of one database, on a server that does not wait for its disk. The wait of an arm is the
longest single statement of any writer, from the end of the warm-up to a second after the work is done; its
lock is the longest time that `sites` or `site_progress` was held against writers.

- Between two statements a writer rests for a millisecond: it then waits for a lock rather
  than for one of the cores that the writers fill.
- The longest of many statements grows with their number, so there is an idle arm for each of ours, as
  long as its counterpart, a minute at most (`--longest-idle`), and each of ours is compared with its own. A shorter
  idle arm has fewer chances of a long statement: that can make our ratio worse, and never better.
- What an arm causes comes back in every round, what the rest of the machine causes does not: the wait
  of an arm is that of its quietest round, for every arm alike. A lock is ours alone: it is the longest of all rounds.
- The old columns have a rule and a NOT NULL, so that on the way back these return NOT VALID and are validated
  without the lock, too. Both must be there, and valid, at the end.

    python benchmarks/writer_wait.py --rounds 2
    python benchmarks/writer_wait.py --only migrations --sites 10000000 --rounds 1
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
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event

import psycopg2
from sqlalchemy.engine import URL

from _common import LEGACY, downgrade, execute, plain, psql, upgrade
from _figures import Goal
from _large import PATIENT
from _locks import watching
from _results import keep
from pipestate.database.embedded import embedded_server

WARM_UP_S, AFTERWARDS_S, IDLE_S, LONGEST_IDLE_S, REST_S = 2.0, 1.0, 10.0, 60.0, 0.001
MOST_OF_SEED, MOST_OF_IDLE, MOST_LOCKED_S = 1 / 30, 4.0, 0.25
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
RULES = """SELECT coalesce((SELECT convalidated FROM pg_constraint
  WHERE conrelid = 'sites'::regclass AND conname = 'known_extraction'), false), attnotnull
FROM pg_attribute WHERE attrelid = 'sites'::regclass AND attname = 'status'"""
PLAIN_CONTRACT = [
    "DROP TABLE site_progress",
    *(f"ALTER TABLE sites DROP COLUMN {column}" for column in LEGACY_COLUMNS),
]


@dataclass(frozen=True, slots=True)
class Load:
    sites: int
    writers: int
    longest_idle: float = LONGEST_IDLE_S


@dataclass(frozen=True, slots=True)
class Arm:
    """What the writers saw; times in seconds, `at` is when the longest wait began.

    `log_bytes` is the write-ahead log of all, that of the writers included.
    """

    name: str
    seconds: float
    writes: int
    p99: float
    longest: float
    at: float
    locked: float
    log_bytes: int


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
    log_before = log_position(database)
    with watching(plain(database), "sites", "site_progress") as watched:
        start = time.monotonic()
        work()
        seconds = time.monotonic() - start
        log_bytes = log_position(database) - log_before
        time.sleep(AFTERWARDS_S)
    stop.set()
    seen = [within(start, *end.recv()) for end in ends]
    if not all(seen):
        sys.exit(f"{name}: a writer wrote nothing")
    every = [write for writer in seen for write in writer]
    longest, at = max(every)
    p99 = statistics.quantiles((took for took, _ in every), n=100)[-1]
    arm = Arm(name, seconds, len(every), p99, longest, at, watched.longest, log_bytes)
    print(row(arm), flush=True)
    return arm


def log_position(database: URL) -> int:
    with closing(psycopg2.connect(plain(database))) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")
        (position,) = cursor.fetchone()
    return int(position)


def within(start: float, begun: Sequence[float], took: Sequence[float]) -> list[tuple[float, float]]:
    """How long and when, of the writes that were not over at the start."""
    return [(t, b - start) for b, t in zip(begun, took, strict=True) if b + t >= start]


# --- Databases and what happens to them ------------------------------------------------------------


@contextmanager
def copy_of(template: URL, server: URL, name: str) -> Iterator[URL]:
    """A database that starts like every other; gone afterwards, so that autovacuum leaves it alone."""
    execute(server, f"CREATE DATABASE {name} TEMPLATE {template.database} STRATEGY file_copy")
    yield server.set(database=name)
    execute(server, f"DROP DATABASE {name} WITH (FORCE)")


# --- Rounds ----------------------------------------------------------------------------------------


def run_round(template: URL, server: URL, load: Load) -> dict[str, Arm]:
    """Ours first; then as long without them, and what others would do."""
    arms = run_migrations(template, server, load)
    with copy_of(template, server, "seed") as database:
        seed = measure("001's SQL in psql", database, load, partial(psql, database, SEED_EXPAND))
        drops = measure("plain DROPs in psql", database, load, partial(psql, database, PLAIN_CONTRACT))
    return arms | {"seed": seed, "drops": drops}


def run_migrations(template: URL, server: URL, load: Load) -> dict[str, Arm]:
    """Ours, and as long without them."""
    arms = {}
    with copy_of(template, server, "migrations") as database:
        arms["expand"] = measure("upgrade to 0005", database, load, partial(upgrade, database, "0005"))
        arms["up"] = measure("0006 and 0007", database, load, partial(upgrade, database, "head"))
        arms["down"] = measure("back to 0005", database, load, partial(downgrade, database, "0005"))
        require_rules(database)
    return arms | run_idle(template, server, load, arms)


def require_rules(database: URL) -> None:
    """Exit unless the rule and the NOT NULL of the old columns are back, and valid."""
    with closing(psycopg2.connect(plain(database))) as connection, connection.cursor() as cursor:
        cursor.execute(RULES)
        if (back := cursor.fetchone()) != (True, True):
            sys.exit(f"after the way back the rule is valid: {back[0]}, the column is NOT NULL: {back[1]}")


def run_idle(template: URL, server: URL, load: Load, ours: dict[str, Arm]) -> dict[str, Arm]:
    with copy_of(template, server, "idle") as database:
        waits = {name: min(max(arm.seconds, IDLE_S), load.longest_idle) for name, arm in ours.items()}
        return {
            f"idle {name}": measure(f"idle: {ours[name].name}", database, load, partial(time.sleep, seconds))
            for name, seconds in waits.items()
        }


def row(arm: Arm) -> str:
    times = f"{arm.p99 * 1e3:>10.2f}{arm.longest * 1e3:>14.1f}{arm.at:>9.1f}{arm.locked * 1e3:>11.0f}"
    return f"{arm.name:<24}{arm.seconds:>9.1f}{arm.writes:>11,}{times}"


def quietest(rounds: list[dict[str, Arm]]) -> dict[str, Arm]:
    """Take of each arm the round with the shortest wait, and the longest lock of all rounds."""
    found = {}
    for name in rounds[0]:
        every = [arms[name] for arms in rounds]
        calm = min(every, key=lambda arm: arm.longest)
        found[name] = replace(calm, locked=max(arm.locked for arm in every))
    return found


def goals(arms: dict[str, Arm], sites: int) -> list[Goal]:
    """Compare each arm of ours with its own idle arm.

    001 has no way back: what that costs is set beside the same SQL, and counted apart.
    """
    ours = {name: arm for name, arm in arms.items() if f"idle {name}" in arms}
    found = [
        Goal(f"{sites:,} sites, {arm.name}, longest wait beside idle", _beside_idle(arms, name), MOST_OF_IDLE)
        for name, arm in ours.items()
    ]
    locked = max(arm.locked for arm in ours.values())
    found.append(Goal(f"{sites:,} sites, longest lock, seconds", locked, MOST_LOCKED_S))
    if "seed" in arms:
        up = max(ours[name].longest for name in ("expand", "up"))
        beside = {"up": up, "back": ours["down"].longest}
        found += [
            Goal(
                f"{sites:,} sites, longest wait {way}, beside 001's SQL",
                longest / arms["seed"].longest,
                MOST_OF_SEED,
            )
            for way, longest in beside.items()
        ]
    return found


def _beside_idle(arms: dict[str, Arm], name: str) -> float:
    return arms[name].longest / arms[f"idle {name}"].longest


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sites", type=int, default=2_000_000)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=["migrations"], help="leave the rest out")
    parser.add_argument(
        "--longest-idle", type=float, default=LONGEST_IDLE_S, metavar="S", help="of an idle arm"
    )
    options = parser.parse_args()
    load = Load(options.sites, options.writers, options.longest_idle)
    cores = f"{os.cpu_count()} cores (load before: {os.getloadavg()[0]:.1f})"
    print(f"{load.sites:,} sites, {load.writers} writers, {cores}\n")
    heads = f"{'p99 ms':>10}{'longest ms':>14}{'at s':>9}{'locked ms':>11}"
    print(f"{'':<24}{'seconds':>9}{'writes':>11}{heads}", flush=True)
    turn = run_migrations if options.only else run_round
    with embedded_server() as server:
        execute(server, *PATIENT)
        template = server.set(database="legacy")
        execute(server, "CREATE DATABASE legacy")
        execute(template, *LEGACY, sites=load.sites)
        arms = quietest([turn(template, server, load) for _ in range(options.rounds)])
    wanted = goals(arms, load.sites)
    print("", *wanted, sep="\n")
    met = [keep(goal.name, goal.value, f"at most {goal.most:g}", ok=goal.ok) for goal in wanted]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
