"""How long a command takes before it does anything: interpreter and imports, beside what people start anyway.

- `pipestate --version` beside `python -c "import typer"`: what the command line costs.
- `pipestate runbook lint` on the shipped pages beside `alembic current`: no database, no SQLAlchemy.
- `pipestate verify --json` beside `alembic current`, on a small SQLite and a small PostgreSQL database.

Whole processes, interleaved in one run; each figure is the median.

    python benchmarks/startup.py --rounds 11
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL

from _common import LEGACY, execute, plain, run, upgrade
from _results import keep
from pipestate.database.embedded import embedded_server

FEWEST_ROUNDS = 7


@dataclass(frozen=True)
class Program:
    """A command line, and the database that it is run on."""

    arguments: Sequence[str]
    url: str | None = None

    def seconds(self) -> float:
        start = time.perf_counter()
        variables = {"PIPESTATE_DATABASE_URL": self.url} if self.url else {}
        run([sys.executable, *self.arguments], variables, codes=(0, 1))
        return time.perf_counter() - start


@dataclass(frozen=True)
class Goal:
    """One program may take so many times as long as another one."""

    name: str
    ours: str
    theirs: str
    most: float

    def report(self, medians: Mapping[str, float]) -> bool:
        ours, theirs = medians[self.ours], medians[self.theirs]
        ok = ours <= theirs * self.most
        print(
            f"{self.name:<52}{ours * 1e3:>8.0f} ms{theirs * 1e3:>8.0f} ms   "
            f"ratio {ours / theirs:.2f} (at most {self.most}) {'ok' if ok else 'MISSED'}"
        )
        return keep(self.name, ours / theirs, f"at most {self.most}", ok=ok)


GOALS = (
    Goal('--version, beside `python -c "import typer"`', "version", "typer", 1.5),
    Goal("runbook lint, beside `alembic current`", "lint", "current on sqlite", 0.6),
    Goal("verify --json on SQLite, beside `alembic current`", "verify on sqlite", "current on sqlite", 1.0),
    Goal(
        "verify --json on PostgreSQL, beside the same", "verify on postgresql", "current on postgresql", 1.0
    ),
)


def programs(sqlite: str, postgresql: str) -> dict[str, Program]:
    databases = {"sqlite": sqlite, "postgresql": postgresql}
    return {
        "typer": Program(["-c", "import typer"]),
        "version": Program(["-m", "pipestate", "--version"]),
        "lint": Program(["-m", "pipestate", "runbook", "lint"]),
        **{
            f"verify on {name}": Program(["-m", "pipestate", "verify", "--json"], url)
            for name, url in databases.items()
        },
        **{
            f"current on {name}": Program(["-m", "alembic", "current"], url)
            for name, url in databases.items()
        },
    }


def medians(all_of_them: Mapping[str, Program], rounds: int) -> dict[str, float]:
    """Run each once to warm up, then all of them in turn: what slows the machine down slows each of them."""
    for program in all_of_them.values():
        program.seconds()
    taken: dict[str, list[float]] = {name: [] for name in all_of_them}
    for _ in range(rounds):
        for name, program in all_of_them.items():
            taken[name].append(program.seconds())
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    if options.rounds < FEWEST_ROUNDS:
        parser.error(f"--rounds must be at least {FEWEST_ROUNDS}: fewer say little")
    with embedded_server() as server, tempfile.TemporaryDirectory() as directory:
        small = server.set(database="small")
        execute(server, "CREATE DATABASE small")
        execute(small, *LEGACY, sites=300)
        file = URL.create("sqlite", database=str(Path(directory) / "small.sqlite"))
        for database in (small, file):
            upgrade(database, "0005")
        found = medians(programs(file.render_as_string(), plain(small)), options.rounds)
    print(f"{'':<52}{'ours':>11}{'beside':>11}")
    reached = [goal.report(found) for goal in GOALS]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
