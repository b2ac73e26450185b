"""How fast backfills are: their writes beside one UPDATE, and the counting of documents beside find.

- `pipestate backfill orders/state` beside the same UPDATE in one statement, on 5 million rows, and its last tenth
  beside its first; and the longest time that a writer on these rows waits, in the quietest round.

- `one UPDATE`: `UPDATE sites … FROM site_progress` for all rows in one statement, which locks every site
  until its end and starts over when it is interrupted.
- `backfill`: `plan` and `apply`, with documents that are given: without the file system. Batches of
  one transaction each, on a server that waits for its disk unless --relaxed. Also, how much slower the
  last tenth of the batches is than the first.
- `find` over 200,000 files, beside counting the documents among them: in long directories (1,000 files
  each), and in pages (9 of each document). It looks for the same names; without, for information, too.

The ways take turns, each on a fresh copy; a ratio is the median of the ratios within a round.

    python benchmarks/backfill.py --rows 1000000 --rounds 3
"""

import argparse
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL

import _own_backfill
from _common import execute, upgrade
from _results import keep
from pipestate.database.embedded import embedded_server
from pipestate.pipeline.backfill import apply, plan
from pipestate.pipeline.storage import Documents, Storage, open_storage

LEAST_RATE, LEAST_STEADY, MOST_FIND = 0.8, 0.9, 1.3
ONE_UPDATE = """
UPDATE sites SET current_stage = 'ocr', ocr_total = 3, ocr_completed = 2, ocr_failed = 1,
  coordinator_enqueued = false, started_at = coalesce(p.started_at, now()),
  updated_at = now() - interval '2 hours 1 second'
FROM site_progress p
WHERE p.subdomain = sites.subdomain AND sites.current_stage IS NULL AND p.current_stage = 'ocr'
  AND (p.updated_at IS NULL OR p.updated_at < now() - interval '2 hours')
"""
FILL = (
    "INSERT INTO sites (subdomain, name, state, kind, status) SELECT 'site' || n || '.ca.us', 'City ' || n, 'CA',"
    " 'council', 'needs_ocr' FROM generate_series(1, %(rows)s) n",
    "INSERT INTO site_progress SELECT 'site' || n || '.ca.us', 'ocr', 3, 1, now() - interval '4 days',"
    " now() - interval '3 days' FROM generate_series(1, %(rows)s) n",
    "VACUUM ANALYZE sites, site_progress",
)


Result = TypeVar("Result")


class Given(Storage):
    """Documents without files: three, two of them with text."""

    same = Documents({"c/1": "", "c/2": "", "c/3": ""}, frozenset({"c/1", "c/2"}))

    def documents(self, _subdomain: str) -> Documents:
        return self.same

    def sites(self) -> Iterator[str]:
        yield "site1.ca.us"


@dataclass
class Batches:
    """How many rows were done when: the batches are of different sizes."""

    moments: list[tuple[int, float]] = field(default_factory=lambda: [(0, time.perf_counter())])

    def __call__(self, done: int, _total: int) -> None:
        self.moments.append((done, time.perf_counter()))

    def steady(self) -> float:
        """The rate of the last tenth beside that of the first."""
        return _own_backfill.rate(self.moments, 0.9, 1.0) / _own_backfill.rate(self.moments, 0.0, 0.1)


def backfill(url: URL, batch_size: int | None) -> tuple[float, float]:
    """Seconds, and how steady; without the garbage collector, as the command does it."""
    gc.disable()
    start = time.perf_counter()
    the_plan = plan(url, Given(Path()))
    planned = time.perf_counter() - start
    batches = Batches()
    apply(url, the_plan, batch_size=batch_size, on_progress=batches)
    took = time.perf_counter() - start
    gc.enable()
    print(f"  (plan {planned:.1f} s, apply {took - planned:.1f} s)", file=sys.stderr)
    return took, batches.steady()


def one_update(url: URL) -> float:
    start = time.perf_counter()
    execute(url, ONE_UPDATE)
    return time.perf_counter() - start


def on_a_copy(admin: URL, template: URL, way: Callable[[URL], Result]) -> Result:
    name = "pipestate_bench_copy"
    execute(admin, f"CREATE DATABASE {name} TEMPLATE {template.database}", "CHECKPOINT")
    try:
        return way(admin.set(database=name))
    finally:
        execute(admin, f"DROP DATABASE {name} WITH (FORCE)")


def own_backfill(rows: int, rounds: int, relaxed: bool) -> bool:
    """Measure a page's backfill."""
    with embedded_server(durable=not relaxed) as admin:
        template = admin.set(database="pipestate_bench")
        execute(admin, f"CREATE DATABASE {template.database}", "ALTER SYSTEM SET max_wal_size = '8GB'")
        execute(admin, "SELECT pg_reload_conf()")
        _own_backfill.make_template(template, rows)
        rate, steady, wait, speed = _own_backfill.beside_one_update(
            admin, template, rows, rounds, on_a_copy, on_a_copy
        )
    fast, even = rate >= LEAST_RATE, steady >= LEAST_STEADY
    calm = wait <= _own_backfill.MOST_WAIT_S
    print(f"pipestate backfill beside one UPDATE: {rate:.2f} x{verdict(fast, f'at least {LEAST_RATE}')}")
    print(f"last tenth beside the first: {steady:.2f} x{verdict(even, f'at least {LEAST_STEADY}')}")
    most = f"at most {_own_backfill.MOST_WAIT_S * 1000:.0f}"
    print(f"longest wait of a writer: {wait * 1000:.0f} ms{verdict(calm, most)}")
    size = _size(rows, relaxed)
    keep(f"{size}, a page's backfill, rows a second", speed, "for information", ok=True)
    keep(f"{size}, a page's backfill beside one UPDATE", rate, f"at least {LEAST_RATE}", ok=fast)
    keep(
        f"{size}, a page's backfill, last tenth beside the first", steady, f"at least {LEAST_STEADY}", ok=even
    )
    keep(f"{size}, a page's backfill, longest wait of a writer, ms", wait * 1000, most, ok=calm)
    return fast and even and calm


def database_side(rows: int, rounds: int, batch_size: int | None, relaxed: bool) -> bool:
    ratios, steadies = [], []
    with embedded_server(durable=not relaxed) as admin:
        template = admin.set(database="pipestate_bench")
        execute(admin, f"CREATE DATABASE {template.database}", "ALTER SYSTEM SET max_wal_size = '8GB'")
        execute(admin, "SELECT pg_reload_conf()")
        upgrade(template, "0005")
        execute(template, *FILL, rows=rows)
        for number in range(rounds):
            theirs = on_a_copy(admin, template, one_update)
            ours, steady = on_a_copy(admin, template, lambda url: backfill(url, batch_size))
            print(
                f"  round {number + 1}: one UPDATE {rows / theirs:,.0f} rows/s, backfill {rows / ours:,.0f} rows/s, "
                f"last tenth {steady:.2f} x the first"
            )
            ratios.append(theirs / ours)
            steadies.append(steady)
    rate, steady = statistics.median(ratios), statistics.median(steadies)
    print(f"backfill beside one UPDATE: {rate:.2f} x{verdict(rate >= LEAST_RATE, f'at least {LEAST_RATE}')}")
    print(
        f"last tenth beside the first: {steady:.2f} x{verdict(steady >= LEAST_STEADY, f'at least {LEAST_STEADY}')}"
    )
    met = [
        keep(
            f"{_size(rows, relaxed)}, the application's backfill beside one UPDATE",
            rate,
            f"at least {LEAST_RATE}",
            ok=rate >= LEAST_RATE,
        ),
        keep(
            f"{_size(rows, relaxed)}, the application's backfill, last tenth beside the first",
            steady,
            f"at least {LEAST_STEADY}",
            ok=steady >= LEAST_STEADY,
        ),
    ]
    return all(met)


def _size(rows: int, relaxed: bool) -> str:
    return f"{rows:,} rows{' relaxed' if relaxed else ''}"


def long_directories(site: Path, files: int) -> None:
    """A PDF and a text for each document, 1,000 in a directory."""
    for meeting in range(files // 2000):
        for kind in ("pdf", "txt"):
            directory = site / ("pdfs" if kind == "pdf" else "txt") / f"meeting-{meeting}"
            fill(directory, [f"2024-{number:04}.{kind}" for number in range(1000)])


def pages(site: Path, files: int) -> None:
    """A PDF and nine pages of text for each document, 200 documents in a directory."""
    for meeting in range(files // 2000):
        dates = [f"2024-{number:04}" for number in range(200)]
        fill(site / "pdfs" / f"meeting-{meeting}", [f"{date}.pdf" for date in dates])
        for date in dates:
            fill(site / "txt" / f"meeting-{meeting}" / date, [f"{page}.txt" for page in range(9)])


def fill(directory: Path, names: list[str]) -> None:
    directory.mkdir(parents=True)
    for name in names:
        os.close(os.open(f"{directory}/{name}", os.O_CREAT | os.O_WRONLY))


def beside_find(name: str, build: Callable[[Path, int], None], files: int, rounds: int) -> bool:
    by_name, plain = [], []
    with tempfile.TemporaryDirectory() as root:
        build(Path(root) / "site", files)
        storage = open_storage(root)
        for _ in range(rounds + 1):
            named = timed(lambda: find(root, "(", "-iname", "*.pdf", "-o", "-iname", "*.txt", ")"))
            ours = timed(lambda: storage.documents("site").total)
            by_name.append(ours / named)
            plain.append(ours / timed(lambda: find(root)))
    ratio = statistics.median(by_name[1:])  # the first round fills the caches
    print(
        f"{files:,} files {name}, beside find: {ratio:.2f} x{verdict(ratio <= MOST_FIND, f'at most {MOST_FIND}')}; "
        f"beside find without names: {statistics.median(plain[1:]):.2f} x"
    )
    return keep(f"{files:,} files {name}, beside find", ratio, f"at most {MOST_FIND}", ok=ratio <= MOST_FIND)


def find(root: str, *names: str) -> int:
    done = subprocess.run(["find", root, "-type", "f", *names], stdout=subprocess.PIPE, check=True)
    return done.stdout.count(b"\n")


def timed(way: Callable[[], object]) -> float:
    start = time.perf_counter()
    way()
    return time.perf_counter() - start


def verdict(good: bool, wanted: str) -> str:
    return f" (wanted: {wanted})" + ("" if good else " MISSED")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument(
        "--rounds", type=int, default=3, help="rounds on the database; 3 times as many on files"
    )
    parser.add_argument("--own-rows", type=int, default=5_000_000, help="rows of the page's backfill")
    parser.add_argument("--only", choices=("own", "sites", "files"), help="measure one part")
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--batch-size", type=int, default=None)
    parser.add_argument("--relaxed", action="store_true", help="a server that does not wait for its disk")
    options = parser.parse_args()
    parts: dict[str, list[Callable[[], bool]]] = {
        "own": [lambda: own_backfill(options.own_rows, options.rounds, options.relaxed)],
        "files": [
            lambda: beside_find("in long directories", long_directories, options.files, 3 * options.rounds),
            lambda: beside_find("in pages", pages, options.files, 3 * options.rounds),
        ],
        "sites": [
            lambda: database_side(options.rows, options.rounds, options.batch_size, options.relaxed),
        ],
    }
    good = [part() for name, some in parts.items() if options.only in (None, name) for part in some]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
