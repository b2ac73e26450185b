"""How long `pipestate verify` takes, beside what people would type otherwise.

- On a small database the whole process, beside `alembic current`: interpreter, imports, connection.
- On two million sites all default runbooks with `--jobs 2`, beside the same SQL in psql, one statement
  after the other in one session. Checks that fail run their evidence as well; psql does not.

- 500 checks on an empty table, the whole process.

Interleaved in one run; each figure is the median.

    python benchmarks/verify.py --rounds 7
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from sqlalchemy.engine import URL

from _common import LEGACY, execute, plain, psql, run, upgrade
from pipestate.chain.project import Named, find_project
from pipestate.chain.read import read_chain
from pipestate.chain.version_table import locator
from pipestate.embedded import embedded_server
from pipestate.runbook.find import find_runbooks
from pipestate.runbook.model import Check
from pipestate.verify.select import ask, find_phases
from pipestate.verify.signoff import signoff_check

MOST_OF_CURRENT, MOST_OF_PSQL = 1.5, 1.0
AT_WORK = (
    "UPDATE sites SET current_stage = 'completed', updated_at = now(), started_at = now(), "
    "ocr_total = 1, ocr_completed = 1",
    "VACUUM ANALYZE sites",
)


def timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleaved(rounds: int, ours: Callable[[], None], theirs: Callable[[], None]) -> tuple[float, float]:
    for warm_up in (ours, theirs):
        warm_up()
    pairs = [(timed(ours), timed(theirs)) for _ in range(rounds)]
    first, second = zip(*pairs, strict=True)
    return statistics.median(first), statistics.median(second)


def command(program: str, url: URL, *arguments: str, codes: tuple[int, ...] = (0,)) -> Callable[[], None]:
    line = [sys.executable, "-m", program, *arguments]
    return lambda: run(line, {"PIPESTATE_DATABASE_URL": plain(url)}, codes=codes)


def same_sql(url: URL) -> list[str]:
    """The checks that apply, as the runbooks have them."""
    from sqlalchemy import create_engine

    project = find_project(Named(shipped=True))
    with create_engine(url).connect() as connection:
        position = locator(project, read_chain(project))(connection)
    asked = [
        each
        for runbook, phase in find_phases(find_runbooks([], project.runbooks), None)
        for each in ask(runbook, phase, position, "postgresql")
        if each.skipped is None
    ]
    checks = [
        each.check
        if isinstance(each.check, Check)
        else signoff_check(each.check, "postgresql", runbook=each.runbook.name, phase=each.phase.name)
        for each in asked
    ]
    return [check.sql for check in checks]


def five_hundred(url: URL) -> bool:
    """500 checks on an empty table, the whole process."""
    execute(url, "CREATE TABLE empty_table (n int)")
    blocks = "\n".join(
        f"```sql\n-- check: c{n}\n-- require: x = 0\nSELECT count(*) AS x FROM empty_table WHERE {n} >= 0;\n```\n"
        for n in range(500)
    )
    page = (
        f"---\nrunbook: many\ndefault: true\nphases:\n  one: {{}}\n---\n# Many\n\n## Phase: one\n\n{blocks}"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".md") as file:
        file.write(page)
        file.flush()
        seconds = timed(command("pipestate", url, "verify", file.name, "--json"))
    print(
        f"{'500 checks on an empty table':<44}{seconds * 1e3:>9.0f} ms{'':>12}   at most 5000 ms {'ok' if seconds < 5 else 'MISSED'}"
    )
    return seconds < 5


def report(name: str, ours: float, theirs: float, most: float) -> bool:
    ok = ours <= theirs * most
    print(
        f"{name:<44}{ours * 1e3:>9.0f} ms{theirs * 1e3:>9.0f} ms   ratio {ours / theirs:.2f} (at most {most}) {'ok' if ok else 'MISSED'}"
    )
    return ok


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sites", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with embedded_server() as server:
        small, large = server.set(database="small"), server.set(database="large")
        for database, sites in ((small, 300), (large, options.sites)):
            execute(server, f"CREATE DATABASE {database.database}")
            execute(database, *LEGACY, sites=sites)
            upgrade(database, "0005")
            execute(database, *AT_WORK)
        print(f"{'':<44}{'verify':>12}{'beside':>12}", flush=True)
        verify = ("verify", "--json")
        process = interleaved(
            options.rounds,
            command("pipestate", small, *verify, codes=(1,)),
            command("alembic", small, "current"),
        )
        good = report("300 sites, beside `alembic current`", *process, MOST_OF_CURRENT)
        good &= five_hundred(small)
        statements = same_sql(large)
        rows = interleaved(
            options.rounds,
            command("pipestate", large, *verify, "--jobs", "2", codes=(1,)),
            lambda: psql(large, statements),
        )
        good &= report(f"{options.sites:,} sites, {len(statements)} checks, beside psql", *rows, MOST_OF_PSQL)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
