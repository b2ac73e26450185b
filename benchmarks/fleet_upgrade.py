"""How long `pipestate fleet upgrade` takes on many tenant schemas, beside a shell loop of `alembic upgrade`.

Empty schemas of one database on an embedded server; the shop of the tests, four revisions with a contract. The loop
runs one process for each tenant, with its search path in PGOPTIONS; it is measured on a sample, half of it before the
fleet and half after. The fleet also verifies each tenant before and after, which the loop does not.

    python benchmarks/fleet_upgrade.py --tenants 1000 --sample 20
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy.engine import URL

from _common import execute, plain, run
from _process import timed_run
from _results import keep
from pipestate.database.embedded import embedded_server

LEAST = 3.0
SHOP = Path(__file__).parents[1] / "tests" / "projects" / "shop"


def loop(root: Path, schemas: list[str]) -> float:
    """As a shell would: one after the other."""
    start = time.perf_counter()
    for schema in schemas:
        command = [sys.executable, "-m", "alembic", "-c", str(root / "alembic.ini"), "upgrade", "head"]
        run(command, {"PGOPTIONS": f"-csearch_path={schema}"})
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument(
        "--sample", type=int, default=20, help="tenants of the loop, besides those of the fleet"
    )
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    with embedded_server() as server, tempfile.TemporaryDirectory() as directory:
        execute(server, "CREATE DATABASE crm")
        root = _project(Path(directory) / "shop", server.set(database="crm"))
        tenants = [f"t_{number:05}" for number in range(options.tenants)]
        looped = [f"loop_{number:05}" for number in range(options.sample + 1)]
        execute(server.set(database="crm"), *(f"CREATE SCHEMA {name}" for name in (*tenants, *looped)))
        loop(root, looped[:1])
        half = len(looped) // 2
        before = loop(root, looped[1:half])
        command = [
            sys.executable,
            "-m",
            "pipestate",
            "fleet",
            "upgrade",
            "--json",
            "--jobs",
            str(options.jobs),
        ]
        names = ["-c", str(root / "alembic.ini"), "--databases", str(root / "tenants.txt")]
        fleet = timed_run([*command, *names], {})
        if fleet.code != 0:
            sys.exit(f"fleet exited with {fleet.code}:\n{fleet.output[-4000:]}")
        each = (before + loop(root, looped[half:])) / (len(looped) - 1)
    own = fleet.seconds / len(tenants)
    ratio = each / own
    print(f"fleet upgrade {fleet.seconds:.1f} s for {len(tenants):,} tenants, {own * 1e3:.0f} ms each")
    print(f"loop of alembic upgrade {each * 1e3:.0f} ms each, measured on {len(looped) - 1}")
    print(f"ratio {ratio:.1f} (at least {LEAST:g}) {'ok' if ratio >= LEAST else 'MISSED'}")
    name = f"{options.tenants} tenant schemas upgraded, beside a loop of alembic upgrade"
    return 0 if keep(name, ratio, f"at least {LEAST:g}", ok=ratio >= LEAST) else 1


def _project(root: Path, url: URL) -> Path:
    shutil.copytree(SHOP, root)
    ini = root / "alembic.ini"
    ini.write_text(
        ini.read_text().replace("driver://user:pass@localhost/dbname", plain(url).replace("%", "%%"))
    )
    query = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^t_' ORDER BY 1"
    (root / "tenants.txt").write_text(f"{plain(url)} schemas: {query}\n")
    return root


if __name__ == "__main__":
    sys.exit(main())
