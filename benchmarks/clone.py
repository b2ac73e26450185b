"""What `--clone` takes to copy a database, beside `pg_dump | psql` of the same, in one run.

Each round copies production twice, to a server of its own each time, and starts no clock before that server runs:
once as `pipestate rehearse --clone` does, once with PostgreSQL's own programs; VACUUM ANALYZE, without which nothing
is rehearsed, belongs to both. Rows and indexes must be the same afterwards. The figure is the ratio of the medians.

    python benchmarks/clone.py --sites 2000000 --rounds 3
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from sqlalchemy.engine import URL

from _common import LEGACY, execute, plain
from _results import keep
from pipestate.database.embedded import embedded_binaries, embedded_server
from pipestate.rehearse.clone import vacuum
from pipestate.rehearse.contents import read_contents
from pipestate.rehearse.copying.fill import Dump
from pipestate.rehearse.copying.make import fill_clone
from pipestate.rehearse.copying.require import WantedClone
from pipestate.rehearse.copying.snapshot import read_production

VERSION = 18
MOST = 1.2
MORE = (
    "CREATE INDEX by_state ON sites (state, status)",
    "ALTER TABLE site_progress ADD FOREIGN KEY (subdomain) REFERENCES sites",
    "VACUUM ANALYZE",
)


def clone(production: URL, target: URL, directory: Path) -> URL:
    """Copy as --clone does."""
    dump = Dump(directory / "schema.dump", VERSION, embedded_binaries(VERSION) / "pg_dump")
    return fill_clone(production, read_production(production), target, dump, WantedClone(2**50))


def pipe(production: URL, target: URL, _directory: Path) -> URL:
    """Copy as a DBA does."""
    execute(target, "CREATE DATABASE copy")
    copy = target.set(database="copy")
    programs = embedded_binaries(VERSION)
    with subprocess.Popen([programs / "pg_dump", plain(production)], stdout=subprocess.PIPE) as source:
        subprocess.run(
            [programs / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", os.devnull, plain(copy)],
            stdin=source.stdout,
            check=True,
        )
    return copy


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sites", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    took: dict[str, list[float]] = {"pg_dump | psql": [], "--clone": []}
    with embedded_server(version=VERSION) as server:
        production = server.set(database="production")
        execute(server, "CREATE DATABASE production")
        execute(production, *LEGACY, sites=options.sites)
        execute(production, *MORE)
        wanted = read_contents(production)
        print(f"{options.sites:,} sites, {options.rounds} rounds, {os.cpu_count()} cores", flush=True)
        for _ in range(options.rounds):
            for (name, times), copy in zip(took.items(), (pipe, clone), strict=True):
                with embedded_server(version=VERSION) as target, tempfile.TemporaryDirectory() as directory:
                    start = time.perf_counter()
                    made = copy(production, target, Path(directory))
                    vacuum(made)
                    times.append(time.perf_counter() - start)
                    if read_contents(made) != wanted:
                        sys.exit(f"{name} has made another database")
    for name, times in took.items():
        print(f"{name:<16}{median(times):8.2f} s  ({', '.join(f'{each:.2f}' for each in times)})")
    ratio = median(took["--clone"]) / median(took["pg_dump | psql"])
    print(f"--clone takes {ratio:.2f} times as long (at most {MOST})")
    return (
        0
        if keep(
            f"{options.sites:,} sites, --clone beside pg_dump | psql",
            ratio,
            f"at most {MOST}",
            ok=ratio <= MOST,
        )
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
