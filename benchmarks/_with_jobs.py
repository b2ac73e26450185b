"""`verify --jobs 2` beside `--jobs 1` where it matters: three dozen checks that take tens of milliseconds each.

Further connections join when the first has worked for half a second, which on the shipped pages it never does. Here
it works for a second or two. Checks that wait (a view over `pg_sleep`) show what is gained; checks that fill the processors (a
count over a million rows, for which PostgreSQL by itself takes a second process) show what is lost.
"""

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.engine import URL

from _common import execute
from _figures import MOST_WITH_JOBS, Goal
from _process import Run

CHECKS = 36
MOST_WAITING = 0.85
COUNTED_ROWS = 1_000_000
TABLES = (
    f"CREATE TABLE counted AS SELECT n FROM generate_series(1, {COUNTED_ROWS}) AS n",
    "VACUUM ANALYZE counted",
    "CREATE VIEW waiting AS SELECT 0 AS x FROM pg_sleep(0.06)",  # which a page may not call itself
)
WAITING = "SELECT x FROM waiting WHERE {n} >= 0"
COUNTING = "SELECT count(*) AS x FROM counted WHERE n < -{n}"


def jobs_goals(server: URL, rounds: int, verify: Callable[..., Run]) -> list[Goal]:
    """Measure both kinds of pages, with one and with two jobs in turn."""
    database = server.set(database="jobs")
    execute(server, f"CREATE DATABASE {database.database}")
    execute(database, *TABLES)
    return [
        Goal(
            f"{CHECKS} checks that {kind}, --jobs 2 beside --jobs 1",
            ratio(database, sql, rounds, verify),
            most,
        )
        for kind, sql, most in (("wait", WAITING, MOST_WAITING), ("count", COUNTING, MOST_WITH_JOBS))
    ]


def ratio(database: URL, sql: str, rounds: int, verify: Callable[..., Run]) -> float:
    """Return the median of the ratios within a round; the first round warms up, and they take turns to be first."""
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "slow.md"
        page.write_text(runbook_file(sql), encoding="utf-8")
        ratios = []
        for turn in range(rounds + 1):
            order = ("1", "2") if turn % 2 else ("2", "1")
            took = {jobs: passed(verify(database, str(page), "--jobs", jobs)).seconds for jobs in order}
            ratios.append(took["2"] / took["1"])
    return statistics.median(ratios[1:])


def runbook_file(sql: str) -> str:
    blocks = "\n".join(
        f"```sql\n-- check: c{n}\n-- require: x = 0\n{sql.format(n=n)};\n```\n" for n in range(CHECKS)
    )
    return f"---\nrunbook: slow\nphases:\n  one: {{}}\n---\n# Slow\n\n## Phase: one\n\n{blocks}"


def passed(run: Run) -> Run:
    """Return the run; a page that failed has not measured what it should."""
    if run.code:
        raise RuntimeError(f"a page of checks exited with {run.code}:\n{run.output}")
    return run
