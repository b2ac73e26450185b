"""How long `pipestate fleet verify` takes on many databases, beside a shell loop of `pipestate verify`.

Small databases of the old world at 0005, copied from a template on one embedded server. The loop runs one
process a database; it is measured on a sample of them, evenly spread, half of it before the fleet and half
after, and scaled to all: a process knows nothing of the others, so the thousandth takes what the first took
(`--sample 0` runs it on every one). Both do the same checks. The loop also fetches the evidence of the checks that
fail, which a fleet leaves out and `verify` cannot; the fleet also compares schemas, which the loop does not.

    python benchmarks/fleet.py --databases 1000 --sample 40
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sqlalchemy.engine import URL

from _common import LEGACY, execute, plain, run, upgrade
from _process import Run, timed_run
from _results import keep
from pipestate.database.embedded import embedded_server

LEAST = 20.0
MEGABYTES_EACH = 9  # on the disk, catalogue and all
TEMPLATE = "fleet_template"


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def memory_with_room(databases: int) -> Path | None:
    """Where files are memory, for a small fleet; a thousand databases would take it from everybody else."""
    shared = Path("/dev/shm")
    needed = databases * MEGABYTES_EACH * 2**20
    fits = os.access(shared, os.W_OK) and min(2 * 2**30, shutil.disk_usage(shared).free // 2) > needed
    return shared if fits else None


def make_databases(server: URL, number: int, sites: int) -> list[URL]:
    """Copy files rather than the log: nobody waits for the disk here, and the copy costs no checkpoint of its own."""
    template = server.set(database=TEMPLATE)
    execute(server, f"CREATE DATABASE {TEMPLATE}")
    execute(template, *LEGACY, sites=sites)
    upgrade(template, "0005")
    names = [f"tenant_{each:05}" for each in range(number)]
    execute(server, *(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY" for name in names))
    return [server.set(database=name) for name in names]


def loop(urls: list[URL]) -> None:
    """As a shell would: one after the other."""
    for url in urls:
        command = [sys.executable, "-m", "pipestate", "verify", "--json"]
        run(command, {"PIPESTATE_DATABASE_URL": plain(url)}, codes=(1,))


def fleet(file: Path, jobs: int) -> Run:
    """Run the whole process."""
    command = [sys.executable, "-m", "pipestate", "fleet", "verify", "--json", "--jobs", str(jobs)]
    done = timed_run([*command, "--databases", str(file)], {})
    if done.code != 1:
        sys.exit(f"fleet exited with {done.code}:\n{done.output[-4000:]}")
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--databases", type=int, default=1000)
    parser.add_argument("--sites", type=int, default=300)
    parser.add_argument("--sample", type=int, default=40, help="databases of the loop; 0 is all")
    parser.add_argument("--jobs", type=int, nargs="+", default=[8])
    options = parser.parse_args()
    with (
        embedded_server(within=memory_with_room(options.databases)) as server,
        tempfile.TemporaryDirectory() as directory,
    ):
        file = Path(directory) / "fleet.txt"
        start = time.perf_counter()
        urls = make_databases(server, options.databases, options.sites)
        file.write_text("".join(f"{plain(url)}\n" for url in urls))
        print(f"{len(urls)} databases made in {time.perf_counter() - start:.1f} s", flush=True)

        def ms_each(seconds: float) -> float:
            return seconds / len(urls) * 1e3

        step = max(1, len(urls) // options.sample) if options.sample else 1
        sample = urls[::step][: options.sample or None]
        loop(sample[:1])
        half = len(sample) // 2
        before = timed(lambda: loop(sample[:half]))
        found = {}
        for jobs in options.jobs:
            found[jobs] = fleet(file, jobs)
            print(
                f"fleet verify --jobs {jobs:<3}{found[jobs].seconds:>9.1f} s  {ms_each(found[jobs].seconds):>7.1f} ms "
                f"each, {ms_each(found[jobs].processor_s):.1f} of them its own work",
                flush=True,
            )
        each = (before + timed(lambda: loop(sample[half:]))) / len(sample)
        print(
            f"loop of verify{each * len(urls):>15.1f} s  {each * 1e3:>7.1f} ms each (measured on {len(sample)}, scaled to "
            f"{len(urls)}; with evidence, which the fleet does not fetch)"
        )
        best = min(found.values(), key=lambda run: run.seconds)
        ratio = each * len(urls) / best.seconds
    print(f"ratio {ratio:.1f} (at least {LEAST:g}) {'ok' if ratio >= LEAST else 'MISSED'}")
    name = f"{options.databases} databases of {options.sites} sites"
    keep(f"{name}, milliseconds each", ms_each(best.seconds), "for information", ok=True)
    own = ms_each(best.processor_s)
    keep(f"{name}, milliseconds of the process's own work each", own, "for information", ok=True)
    met = keep(f"{name}, beside a loop of verify", ratio, f"at least {LEAST:g}", ok=ratio >= LEAST)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
