"""Faults by the hundred: `python tests/faults/run.py`, or `make faults`. The figures are printed last.

Three processes share the work, each with servers of its own: much of it is waiting. `--part` runs one part,
`--tenth` a tenth of each.
"""

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.crowds import finished_jobs, upgrades_at_once
from faults.documents import read_documents
from faults.strikes import duration, instants, strike
from faults.subjects import SUBJECTS
from faults.world import open_world

# How many instants each subject is killed at (200 in all), cut off at, and loses its server at.
KILLS = {
    "upgrade": 35,
    "contract": 35,
    "downgrade": 35,
    "own_backfill": 30,
    "shipped_backfill": 25,
    "reconcile": 15,
    "queues_clear": 15,
    "rehearse": 10,
}
CUT_OFF, STOPPED = 8, 4
PROCESSES = 3
UPGRADES, JOBS, WORKERS_KILLED, DOCUMENTS = 32, 1_000_000, 40, 10_000


@dataclass
class Figures:
    """What was tried, and what went wrong."""

    tried: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        self.tried.update(other.tried)
        self.lost += other.lost
        self.tracebacks += other.tracebacks


def be_quiet() -> None:
    """Keep Alembic's lines out of the figures, whatever an env.py sets up."""
    logging.disable(logging.INFO)


def strikes(name: str, share: float) -> Figures:
    """Strike one subject at many instants."""
    figures = Figures()
    with open_world() as world:
        seconds = duration(world, SUBJECTS[name])
        numbers = {"kill": KILLS[name], "terminate": CUT_OFF, "stop server": STOPPED}
        for fault, number in numbers.items():
            for instant in instants(name, fault, max(1, round(number * share)), seconds):
                done = strike(world, SUBJECTS[name], fault, instant)
                figures.tried[fault] += 1
                where = f"{name}, {fault} after {instant:.2f} s"
                figures.lost += [f"{where}: {each}" for each in done.lost]
                figures.tracebacks += [f"{where}: {each[-800:]}" for each in done.tracebacks]
    return figures


def upgrades(share: float) -> Figures:
    """Upgrade one database many times at once."""
    number = max(4, round(UPGRADES * share))
    with open_world() as world:
        return Figures(Counter({"upgrades at once": number}), upgrades_at_once(world, number))


def jobs(share: float) -> Figures:
    """Finish jobs while workers are killed."""
    kills = max(2, round(WORKERS_KILLED * share))
    with open_world() as world:
        calls, lost = finished_jobs(world, round(JOBS * share), kills)
    return Figures(Counter({"finish_job": calls, "workers killed": kills}), lost)


def documents(share: float) -> Figures:
    """Read documents that nobody would write."""
    number = round(DOCUMENTS * share)
    return Figures(Counter({"documents": 2 * number}), [], read_documents(number))


# What takes longest comes first: at the end none of them then waits for another.
LONGEST = ("rehearse", "contract", "downgrade", "upgrade")
PARTS: dict[str, Callable[[float], Figures]] = {
    "jobs": jobs,
    **{
        name: partial(strikes, name)
        for name in (*LONGEST, *(each for each in SUBJECTS if each not in LONGEST))
    },
    "upgrades": upgrades,
    "documents": documents,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="only this; repeatable")
    parser.add_argument("--tenth", action="store_true", help="a tenth of everything")
    options = parser.parse_args()
    share, start, all_of_it = 0.1 if options.tenth else 1.0, time.monotonic(), Figures()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn"), initializer=be_quiet) as pool:
        running = {name: pool.submit(PARTS[name], share) for name in options.part or PARTS}
        for name, part in running.items():
            found = part.result()
            all_of_it.add(found)
            print(f"{name:<18}{_told(found.tried)}", flush=True)
            for each in [*found.lost, *found.tracebacks]:
                print(f"  {each}", flush=True)
    print(f"{_told(all_of_it.tried)}, in {(time.monotonic() - start) / 60:.0f} minutes")
    print(f"{len(all_of_it.lost)} lost or doubled, {len(all_of_it.tracebacks)} tracebacks")
    return 1 if all_of_it.lost or all_of_it.tracebacks else 0


def _told(tried: Counter[str]) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in tried.items())


if __name__ == "__main__":
    sys.exit(main())
