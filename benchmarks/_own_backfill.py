"""A page's backfill beside one UPDATE of the same rows, and how long a writer on these rows stands still."""

import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TypeVar

import psycopg2
from sqlalchemy import URL

from _common import execute, plain
from pipestate.backfill.loop import LARGEST, TARGET_S
from pipestate.backfill.recorded import How, run
from pipestate.backfill.source import Found, find_backfill
from pipestate.database import connections as db
from pipestate.ledger.install import install
from pipestate.runbook.lint import load

LEAST_RATE, LEAST_STEADY, MOST_WAIT_S = 0.8, 0.9, 2 * TARGET_S
ONE_UPDATE = "UPDATE orders SET state = CASE WHEN paid THEN 'paid' ELSE 'open' END WHERE state IS NULL"
PAGE = """---
runbook: orders
phases:
  fill:
---
## Phase: fill

```sql
-- check: filled
-- require: rows = 0
SELECT id FROM orders WHERE state IS NULL;
```

```sql
-- backfill: state
-- table: orders
-- key: id
UPDATE orders SET state = CASE WHEN paid THEN 'paid' ELSE 'open' END
WHERE id BETWEEN :first AND :last AND state IS NULL;
```
"""
FILL = (
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, amount numeric, paid boolean, note text, state text)",
    "INSERT INTO orders SELECT n, mod(n, 1000), mod(n, 97), mod(n, 3) = 0, 'order ' || n FROM generate_series(1, %(rows)s) n",
    "VACUUM ANALYZE orders",
)
# A writer goes where the backfill is at work: a little behind the last key that the ledger has.
FRONTIER = "SELECT coalesce(max(last_key::bigint), 0) FROM pipestate.backfill_progress"
WRITE = "UPDATE orders SET amount = amount + 1 WHERE id = %s"
REST_S = 0.001

Result = TypeVar("Result")
OnACopy = Callable[[URL, URL, Callable[[URL], Result]], Result]


@dataclass(frozen=True, slots=True)
class Walk:
    """How long a run took, and its rate over the last tenth of the rows beside that over the first."""

    seconds: float
    steady: float


def make_template(template: URL, rows: int) -> None:
    execute(template, *FILL, rows=rows)
    with db.engine_for(template).begin() as connection:
        install(connection)


def find_page() -> Found:
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "orders.md"
        page.write_text(PAGE, encoding="utf-8")
        return find_backfill("orders/state", [load(page)], "postgresql")


def one_update(url: URL) -> float:
    start = time.perf_counter()
    execute(url, ONE_UPDATE)
    return time.perf_counter() - start


def walk(url: URL) -> Walk:
    """Run the backfill as the command does; the first second, in which it finds its pace, counts in the rate only."""
    moments = [(0, time.perf_counter())]

    def tell(done: int, _total: int) -> None:
        moments.append((done, time.perf_counter()))

    with db.engine_for(url).connect() as plain_connection:
        connection = plain_connection.execution_options(isolation_level="AUTOCOMMIT")
        start = time.perf_counter()
        outcome = run(connection, find_page(), How(on_progress=tell))
        took = time.perf_counter() - start
    assert outcome.rows_left == 0, outcome
    return Walk(took, rate(moments, 0.9, 1.0) / rate(moments, 0.0, 0.1))


def rate(moments: list[tuple[int, float]], begin: float, end: float) -> float:
    """Rows a second between two shares of the rows."""
    rows = moments[-1][0]
    within = [each for each in moments if begin * rows <= each[0] <= end * rows]
    return (within[-1][0] - within[0][0]) / (within[-1][1] - within[0][1])


def longest_wait(url: URL) -> float:
    """Run it beside a writer on the same rows; return the longest time that one of his statements took."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    ours, theirs = context.Pipe(duplex=False)
    writer = context.Process(target=_write, args=(plain(url), stop, theirs))
    writer.start()
    ours.recv()
    walk(url)
    stop.set()
    longest, writes = ours.recv()
    writer.join()
    print(f"  (the writer wrote {writes:,} times)")
    return float(longest)


def _write(url: str, stop: Event, tell: "multiprocessing.connection.Connection") -> None:
    with closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        longest, writes = 0.0, 0
        tell.send(None)
        while not stop.is_set():
            cursor.execute(FRONTIER)
            (frontier,) = cursor.fetchone()
            for _ in range(20):
                start = time.perf_counter()
                cursor.execute(WRITE, (frontier + random.randint(1, LARGEST),))
                longest, writes = max(longest, time.perf_counter() - start), writes + 1
                time.sleep(REST_S)
        tell.send((longest, writes))


def beside_one_update(
    admin: URL,
    template: URL,
    rows: int,
    rounds: int,
    on_a_copy: OnACopy[float],
    on_a_copy_walk: OnACopy[Walk],
) -> tuple[float, float, float, float]:
    """Return the ratios of the rates and of the tenths, the shortest of the longest waits in seconds, and the rate."""
    ratios, steadies, waits, rates = [], [], [], []
    for number in range(rounds):
        theirs = on_a_copy(admin, template, one_update)
        ours = on_a_copy_walk(admin, template, walk)
        wait = on_a_copy(admin, template, longest_wait)
        print(
            f"  round {number + 1}: one UPDATE {rows / theirs:,.0f} rows/s, pipestate backfill "
            f"{rows / ours.seconds:,.0f} rows/s, last tenth {ours.steady:.2f} x the first, longest wait of a writer "
            f"{wait * 1000:.0f} ms"
        )
        ratios.append(theirs / ours.seconds)
        steadies.append(ours.steady)
        waits.append(wait)
        rates.append(rows / ours.seconds)
    return statistics.median(ratios), statistics.median(steadies), min(waits), statistics.median(rates)
