"""Faults by the hundred: `python tests/faults/run.py`, or `make faults`. The figures are printed last.

Three processes share the work, each with servers of its own: much of it is waiting. `--part` runs one part,
`--tenth` a tenth of each.
"""

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from multiprocessing.util import Finalize
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.case import KINDS, Complaint
from faults.crowds import finished_jobs, upgrades_at_once
from faults.documents import Reader, read_criteria, read_pages
from faults.strikes import fractions, strike_until_hit
from faults.subjects import SUBJECTS
from faults.world import World, open_world

# How many instants each subject is killed at: 200 in all.
KILLS = {
    "contract": 35,
    "downgrade": 35,
    "upgrade": 35,
    "own_backfill": 30,
    "shipped_backfill": 25,
    "rehearse": 10,
    "queues_clear": 15,
    "reconcile": 15,
}
CUT_OFF, STOPPED = 8, 4
# What is stopped under a command: the servers that it uses.
SERVERS = {"queues_clear": ["Redis stopped"], "reconcile": ["server stopped", "Redis stopped"]}
FEWEST_HITS = 0.8
PROCESSES = 3
UPGRADES, JOBS, WORKERS_KILLED, DOCUMENTS = 32, 1_000_000, 40, 10_000


@dataclass
class Figures:
    """What was tried, how much of it hit, and what went wrong."""

    tried: Counter[str] = field(default_factory=Counter)
    hit: Counter[str] = field(default_factory=Counter)
    complaints: list[Complaint] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: "Figures") -> None:
        self.tried.update(other.tried)
        self.hit.update(other.hit)
        self.complaints += other.complaints

    def __str__(self) -> str:
        return ", ".join(
            f"{number:,} {what}" + (f" ({self.hit[what]:,} hit)" if what in self.hit else "")
            for what, number in self.tried.items()
        )


def strikes(world: World, share: float, *, name: str, fault: str, number: int) -> Figures:
    """Strike one subject with one fault, at many instants."""
    figures, wanted = Figures(hit=Counter({fault: 0})), max(1, round(number * share))
    for fraction in fractions(name, fault, wanted):
        for strike in strike_until_hit(world, SUBJECTS[name], fault, fraction):
            figures.tried[fault] += 1
            figures.hit[fault] += strike.hit
            where = f"{name}, {fault} at about {fraction:.0%}"
            figures.complaints += [Complaint(kind, f"{where}: {text}") for kind, text in strike.complaints]
    if figures.hit[fault] < wanted * FEWEST_HITS:
        reported = f"{name}, {fault}: {figures.hit[fault]} hits, {wanted} wanted"
        figures.complaints.append(Complaint("too few hits", reported))
    return figures


def upgrades(world: World, share: float) -> Figures:
    """Upgrade one database many times at once."""
    number = max(4, round(UPGRADES * share))
    return Figures(Counter({"upgrades at once": number}), complaints=upgrades_at_once(world, number))


def jobs(world: World, share: float) -> Figures:
    """Finish jobs while workers are killed."""
    calls, killed, complaints = finished_jobs(
        world, round(JOBS * share), max(2, round(WORKERS_KILLED * share))
    )
    return Figures(Counter({"calls of finish_job": calls, "workers killed": killed}), complaints=complaints)


def documents(world: World, share: float, *, what: str, read: Callable[[int], Reader]) -> Figures:
    """Read documents that nobody would write, and some that people would."""
    del world
    found = read(round(DOCUMENTS * share))
    tried = Counter({what: found.accepted + found.refused, f"{what} read": found.accepted})
    return Figures(tried, complaints=found.complaints)


Part = Callable[[World, float], Figures]


def all_parts() -> Iterator[tuple[str, Part]]:
    """List what is to be done: what takes longest comes first, so that at the end none waits for another."""
    yield "jobs", jobs
    for name, number in KILLS.items():
        yield name, partial(strikes, name=name, fault="kill", number=number)
    yield "documents", partial(documents, what="pages", read=read_pages)
    for name in KILLS:
        yield name, partial(strikes, name=name, fault="sessions ended", number=CUT_OFF)
    yield "upgrades", upgrades
    for name in KILLS:
        for fault in SERVERS.get(name, ["server stopped"]):
            yield name, partial(strikes, name=name, fault=fault, number=STOPPED)
    yield "documents", partial(documents, what="criteria", read=read_criteria)


PARTS = list(all_parts())
WORLDS: list[World] = []


def open_own_world() -> None:
    """Open the world of this process, and close it at its end; keep Alembic's lines out of the figures."""
    logging.disable(logging.INFO)
    servers = ExitStack()
    WORLDS.append(servers.enter_context(open_world()))
    Finalize(None, servers.close, exitpriority=1)


def run_part(number: int, share: float) -> Figures:
    """Run a part in the world of this process."""
    start = time.monotonic()
    figures = PARTS[number][1](WORLDS[0], share)
    figures.seconds = time.monotonic() - start
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = list(dict.fromkeys(name for name, _ in PARTS))
    parser.add_argument("--part", choices=names, action="append", help="only this; repeatable")
    parser.add_argument("--tenth", action="store_true", help="a tenth of everything")
    options = parser.parse_args()
    share, start, all_of_it = 0.1 if options.tenth else 1.0, time.monotonic(), Figures()
    wanted = [number for number, (name, _) in enumerate(PARTS) if name in (options.part or names)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn"), initializer=open_own_world) as pool:
        running = {pool.submit(run_part, number, share): PARTS[number][0] for number in wanted}
        for part in as_completed(running):
            found = part.result()
            all_of_it.add(found)
            print(f"{running[part]:<18}{found.seconds:5.0f} s  {found}", flush=True)
            for kind, text in found.complaints:
                print(f"  {kind}: {text}", flush=True)
    count = Counter(kind for kind, _ in all_of_it.complaints)
    print(f"{all_of_it}, in {(time.monotonic() - start) / 60:.1f} minutes")
    print(", ".join(f"{count[kind]} {kind}" for kind in KINDS if kind not in MAIN))
    print(", ".join(f"{count[kind]} {kind}" for kind in MAIN))
    return 1 if all_of_it.complaints else 0


# The figures of the last line; the others stand above it.
MAIN = ("lost", "doubled", "tracebacks")


if __name__ == "__main__":
    sys.exit(main())
