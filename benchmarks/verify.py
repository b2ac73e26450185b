"""How long `pipestate verify` takes, beside what people would type otherwise, and what it grows with.

- 300 sites: the whole process, beside `alembic current`: interpreter, imports, connection.
- 500 checks on an empty table, the whole process.
- Three dozen slow checks with `--jobs 2`, beside `--jobs 1` (`_with_jobs.py`).
- 10⁴ to 10⁷ rows in each table: the whole process, beside the source documents' own queries through psql
  (`_source_queries.sql`); with `--jobs 2` beside without; its memory; and each check by itself. A run that grows
  with the rows has a check that reads them: the table by check says which. Every ledger has ninety days of records
  (`_history.py`), whatever the rows.

All sizes are built first and then measured in turn; each figure is the median. Ten million rows need 17 GB of disk
and most of an hour, and are left to `make scale`.

    python benchmarks/verify.py --sizes 10000,100000,1000000,10000000 --json scale.json
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL

from _common import LEGACY, execute, plain, upgrade
from _figures import Figures, Goal, goals, show
from _history import fill_ledger
from _large import PATIENT, build, refuse_a_full_disk
from _process import Run, machine, timed_run
from _results import keep
from _with_jobs import jobs_goals
from pipestate.database.embedded import embedded_binaries, embedded_server

QUERIES = Path(__file__).parent / "_source_queries.sql"
MOST_OF_CURRENT = 1.5
FEW_ROUNDS = 3  # of what takes long, and is only there to be compared with


@dataclass
class Size:
    """What was measured on a database of that many rows: seconds, megabytes, and milliseconds by check."""

    rows: int
    database: URL
    verify: list[Run] = field(default_factory=list)
    with_jobs: list[Run] = field(default_factory=list)
    queries: list[Run] = field(default_factory=list)
    checks: dict[str, list[float]] = field(default_factory=dict)

    def figures(self) -> Figures:
        return Figures(
            self.rows,
            _median(run.seconds for run in self.verify),
            _median(run.seconds for run in self.with_jobs),
            _median(run.seconds for run in self.queries),
            _median(run.megabytes for run in self.verify),
            {name: _median(times) for name, times in self.checks.items()},
        )


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 4)


# --- Programs --------------------------------------------------------------------------------------


def pipestate(database: URL, *arguments: str) -> Run:
    return _program(database, [sys.executable, "-m", "pipestate", "verify", "--json", *arguments])


def alembic_current(database: URL) -> Run:
    return _program(database, [sys.executable, "-m", "alembic", "current"])


def source_queries(database: URL) -> Run:
    options = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(QUERIES), plain(database)]
    return _program(database, [str(embedded_binaries() / "psql"), *options])


def _program(database: URL, command: list[str]) -> Run:
    run = timed_run(command, {"PIPESTATE_DATABASE_URL": plain(database)})
    if run.code not in (0, 1):
        sys.exit(f"{' '.join(command[:4])} exited with {run.code}:\n{run.output}")
    return run


# --- Measuring -------------------------------------------------------------------------------------


def measure_sizes(sizes: Sequence[Size], rounds: int) -> None:
    """In turn, so that what slows the machine down slows all of them; the first turn warms up."""
    for turn in range(rounds + 1):
        for size in sizes:
            ways: list[tuple[str, ...]] = [(), ("--jobs", "2")]
            runs = {way: pipestate(size.database, *way) for way in (ways if turn % 2 else reversed(ways))}
            verify, with_jobs = runs[()], runs["--jobs", "2"]
            other = pipestate(size.database, "queue-cutover")
            if turn == 0:
                continue
            size.verify.append(verify)
            size.with_jobs.append(with_jobs)
            for run in (verify, other):
                note_checks(size, json.loads(run.output))
            if turn <= FEW_ROUNDS:
                size.queries.append(source_queries(size.database))


def note_checks(size: Size, report: dict[str, Any]) -> None:
    for runbook in report["runbooks"]:
        for phase in runbook["phases"]:
            for check in phase["checks"]:
                if check["outcome"] != "skipped":
                    name = f"{runbook['name']}/{phase['name']}/{check['id']}"
                    size.checks.setdefault(name, []).append(check["duration_ms"])


def beside_current(server: URL, rounds: int) -> Goal:
    small = server.set(database="small")
    execute(server, "CREATE DATABASE small")
    execute(small, *LEGACY, sites=300)
    upgrade(small, "0005")
    pairs = [(pipestate(small).seconds, alembic_current(small).seconds) for _ in range(rounds + 1)][1:]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    return Goal("300 sites, beside `alembic current`", ours / theirs, MOST_OF_CURRENT)


def five_hundred(server: URL) -> Goal:
    """500 checks on an empty table, the whole process."""
    execute(server, "CREATE TABLE empty_table (n int)")
    blocks = "\n".join(
        f"```sql\n-- check: c{n}\n-- require: x = 0\nSELECT count(*) AS x FROM empty_table WHERE {n} >= 0;\n```\n"
        for n in range(500)
    )
    page = (
        f"---\nrunbook: many\ndefault: true\nphases:\n  one: {{}}\n---\n# Many\n\n## Phase: one\n\n{blocks}"
    )
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "many.md"
        file.write_text(page, encoding="utf-8")
        return Goal("500 checks on an empty table, seconds", pipestate(server, str(file)).seconds, 5.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", default="10000,100000,1000000", help="rows of each table")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="F", help="write the figures there")
    options = parser.parse_args()
    rows = sorted(int(size) for size in options.sizes.split(","))
    refuse_a_full_disk(sum(rows))
    with embedded_server() as server:
        about = machine()
        execute(server, *PATIENT)
        wanted = [beside_current(server, options.rounds), five_hundred(server)]
        wanted += jobs_goals(server, options.rounds, pipestate)
        sizes = [Size(each, build(server, each)) for each in rows]
        for size in sizes:
            fill_ledger(size.database)
        measure_sizes(sizes, options.rounds)
    figures = [size.figures() for size in sizes]
    wanted += goals(figures)
    show(figures)
    print("", *wanted, sep="\n")
    if options.json:
        written = {
            "machine": about,
            "sizes": [asdict(each) for each in figures],
            "goals": [asdict(goal) for goal in wanted],
        }
        options.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    met = [keep(goal.name, goal.value, f"at most {goal.most:g}", ok=goal.ok) for goal in wanted]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
