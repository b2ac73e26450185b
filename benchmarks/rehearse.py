"""What `pipestate rehearse` forecasts, beside the longest wait of real writers.

For each change three copies of one database: a rehearsal on the first, `alembic upgrade` beside four writers on
the second, `alembic upgrade` alone on the third, which says how much the watcher slows the change. Every figure is
the median of the rounds.

A forecast is right within a factor of two where the truth is at least 300 ms and five times what an empty
revision shows; below that, when both are on the same side of the limit. DROP COLUMN behind a long reader is not
measured but tried: the forecast must say that its request never gives up, and that those of the shipped
migrations do, after each has met a reader that does not end. Beside the watcher a change may take at most a tenth longer.

    python benchmarks/rehearse.py
    python benchmarks/rehearse.py --rows 20000 --rounds 1    # does the script run? the figures say nothing
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy.engine import URL

from _common import LEGACY, execute, plain
from _results import keep
from pipestate.database.embedded import embedded_server
from pipestate.database.urls import shipped_root
from writer_wait import SEED_EXPAND, Load, copy_of, measure

LIMIT_MS, WORTH_JUDGING_MS, MEASURABLE_FACTOR, MOST_SLOWED = 500, 300, 5, 1.10
CHANGES = {
    "001's SQL": SEED_EXPAND,
    "volatile default": ["ALTER TABLE sites ADD COLUMN token uuid DEFAULT gen_random_uuid()"],
    "int to bigint": ["ALTER TABLE sites ALTER COLUMN pages TYPE bigint"],
    "UPDATE of all rows": ["UPDATE sites SET extra = '[]'"],
    "DROP COLUMN": ["ALTER TABLE sites DROP COLUMN lat"],
}
MIGRATIONS = "the shipped migrations"
ENV = """from alembic import context
from sqlalchemy import create_engine, pool
from pipestate.config import resolve_url

with create_engine(resolve_url(), poolclass=pool.NullPool).connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""


@dataclass(frozen=True, slots=True)
class Project:
    """A project with one change, or the shipped one."""

    name: str
    root: Path
    target: str


@dataclass(frozen=True, slots=True)
class Round:
    """One comparison; times in milliseconds."""

    forecast: float
    truth: float
    idle: float
    watched: float
    alone: float
    gives_up: bool
    tried: bool | None


def lay_out(root: Path, name: str, statements: list[str]) -> Project:
    """Write a project whose only revision is this change."""
    (root / "versions").mkdir(parents=True)
    (root / "alembic.ini").write_text("[alembic]\nscript_location = %(here)s\n")
    (root / "env.py").write_text(ENV)
    lines = "".join(f"    op.execute({statement!r})\n" for statement in statements)
    head = 'from alembic import op\n\nrevision, down_revision = "a1", None\n\n\ndef upgrade():\n'
    (root / "versions" / "a1.py").write_text(head + lines)
    return Project(name, root, "head")


def run(project: Project, database: URL, *argv: str, codes: tuple[int, ...] = (0,)) -> str:
    environment = {name: value for name, value in os.environ.items() if "DATABASE_URL" not in name}
    if argv[0] == "alembic":
        environment["PIPESTATE_DATABASE_URL"] = plain(database)
    done = subprocess.run(
        [sys.executable, "-m", *argv],
        cwd=project.root,
        env=environment,
        start_new_session=True,
        capture_output=True,
        text=True,
    )
    if done.returncode not in codes:
        sys.exit(f"{project.name}: {argv} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def alembic(project: Project, database: URL) -> float:
    """Upgrade, and say how long that took without Alembic's own start."""
    start = time.monotonic()
    run(project, database, "alembic", "current")
    middle = time.monotonic()
    run(project, database, "alembic", "upgrade", project.target)
    return ((time.monotonic() - middle) - (middle - start)) * 1000


def migrate(project: Project, database: URL) -> None:
    run(project, database, "alembic", "upgrade", project.target)


def forecast(project: Project, database: URL) -> dict[str, Any]:
    options = ("--on", plain(database), "--to", project.target, "--max-wait", f"{LIMIT_MS}ms", "--json")
    found: dict[str, Any] = json.loads(
        run(project, database, "pipestate", "rehearse", *options, codes=(0, 1))
    )
    return found


def compare(project: Project, template: URL, server: URL, load: Load) -> Round:
    with copy_of(template, server, "clone") as database:
        told = forecast(project, database)
    with copy_of(template, server, "truth") as database:
        arm = measure(project.name, database, load, partial(migrate, project, database))
    with copy_of(template, server, "alone") as database:
        execute(database, "VACUUM ANALYZE")
        alone = alembic(project, database)
    tables = [table for revision in told["revisions"] for table in revision["tables"]]
    return Round(
        told["longest_stall_ms"],
        arm.longest * 1000,
        told["noise_ms"],
        sum(revision["duration_ms"] for revision in told["revisions"]),
        alone,
        all(table["bounded"] is not False for table in tables),
        was_tried(tables),
    )


def was_tried(tables: list[dict[str, Any]]) -> bool | None:
    """Say whether every wait for ACCESS EXCLUSIVE met a reader; None if none was requested."""
    known = [table["bounded_by"] == "tried" for table in tables if table["bounded"] is not None]
    return all(known) if known else None


def slowed_by(rounds: list[Round]) -> float | None:
    """How many times longer the change took beside the watcher; None where it is over in no time."""
    alone = median(each.alone for each in rounds)
    return median(each.watched for each in rounds) / alone if alone >= WORTH_JUDGING_MS else None


def judge_watcher(found: list[list[Round]], rows: int) -> bool:
    """Say what the watcher costs: the median of the changes, since one of them alone varies by more."""
    known = [each for rounds in found if (each := slowed_by(rounds)) is not None]
    if not known:
        print("\nno change took long enough to say what the watcher costs")
        return True
    slowed = median(known)
    right = slowed <= MOST_SLOWED
    print(
        f"\nbeside the watcher a change takes {slowed:.2f} times as long: at most {MOST_SLOWED}  {said(right)}"
    )
    return keep(f"{rows:,} rows, a change beside the watcher", slowed, f"at most {MOST_SLOWED}", ok=right)


def said(right: bool) -> str:
    return "ok" if right else "MISSED"


def judge(name: str, rounds: list[Round], rows: int) -> bool:
    """Print one line, and say whether the forecast was right."""
    guess = median(each.forecast for each in rounds)
    truth = median(each.truth for each in rounds)
    idle = median(each.idle for each in rounds)
    slowed = slowed_by(rounds)
    if name == "DROP COLUMN" or truth < max(WORTH_JUDGING_MS, idle * MEASURABLE_FACTOR):
        right = (guess > LIMIT_MS) == (truth > LIMIT_MS)
    else:
        right = 0.5 <= guess / truth <= 2
    if name in (MIGRATIONS, "DROP COLUMN"):
        right &= all(each.tried is True and each.gives_up is (name == MIGRATIONS) for each in rounds)
    gives_up = f"{'gives up' if rounds[0].gives_up else 'never'}{', tried' if rounds[0].tried else ''}"
    gives_up = "–" if rounds[0].tried is None else gives_up
    print(
        f"{name:<20}{guess:>10.0f}{truth:>10.0f}{guess / max(truth, 1):>8.2f}{idle:>8.0f}"
        f"{'–' if slowed is None else f'{slowed:.2f}':>9}  "
        f"{gives_up:<20}{said(right)}",
        flush=True,
    )
    return keep(
        f"{rows:,} rows, forecast beside the truth: {name}",
        guess / max(truth, 1),
        "0.5 to 2, or the same side of 500 ms",
        ok=right,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="sites in the table that changes")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    load = Load(options.rows, options.writers)
    cores = f"{os.cpu_count()} cores (load before: {os.getloadavg()[0]:.1f})"
    print(f"{load.sites:,} rows, {load.writers} writers, medians of {options.rounds}, {cores}", flush=True)
    with embedded_server() as server, tempfile.TemporaryDirectory() as directory:
        template = server.set(database="legacy")
        execute(server, "CREATE DATABASE legacy")
        execute(template, *LEGACY, sites=load.sites)
        projects = [Project(MIGRATIONS, shipped_root(), "0005")]
        projects += [
            lay_out(Path(directory) / str(number), name, statements)
            for number, (name, statements) in enumerate(CHANGES.items())
        ]
        found = {
            project.name: [compare(project, template, server, load) for _ in range(options.rounds)]
            for project in projects
        }
    print(f"\n{'':<20}{'forecast':>10}{'truth ms':>10}{'ratio':>8}{'idle':>8}{'slowed':>9}")
    right = [judge(name, rounds, load.sites) for name, rounds in found.items()]
    right.append(judge_watcher(list(found.values()), load.sites))
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
