"""A fleet of tenant schemas, upgraded in waves by a command that is killed again and again; one tenant always fails.

    python tests/faults/fleet_upgrade.py --tenants 1000 --kills 50

After each kill every tenant is at a revision of the migrations, and has exactly the tables of that revision. At last the
command runs to its end: every tenant is at the head, but the one that fails.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

from sqlalchemy import URL, NullPool, create_engine

from pipestate.database.embedded import embedded_server

SHOP = Path(__file__).parents[1] / "projects" / "shop"
BASE = "base"
# The tables of a tenant at each revision, besides its version table.
TABLES = {
    BASE: set[str](),
    "a1": {"orders", "order_log", "approvals"},
    "b2": {"orders", "order_log", "approvals"},
    "c3": {"orders", "approvals"},
    "d4": {"orders", "approvals", "receipts"},
}
FAILING = "t_0007"
FAILS_AT, STAYS_AT = "d4", "c3"
FOUND = """SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname ~ '^t_' AND c.relkind = 'r'"""


@dataclass(frozen=True)
class Killed:
    """What was seen: kills that hit a running command, commands in all, seconds, and where the tenants ended."""

    kills: int
    runs: int
    seconds: float
    revisions: dict[str, int]


def make_project(to: Path) -> Path:
    """Copy the shop; its last revision fails in one schema, behind its change."""
    shutil.copytree(SHOP, to)
    file = to / "migrations" / "versions" / "d4_receipts.py"
    change = 'op.execute("CREATE TABLE receipts (id integer PRIMARY KEY)")'
    fails = f"op.execute(\"SELECT 1 / (current_schema() <> '{FAILING}')::int\")"
    file.write_text(file.read_text().replace(change, f"{change}\n    {fails}"))
    return to


def make_tenants(url: URL, number: int) -> None:
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        for each in range(number):
            connection.exec_driver_sql(f"CREATE SCHEMA t_{each:04}")


def where(url: URL, number: int) -> dict[str, str]:
    """Each tenant's revision; AssertionError where its tables are those of another one."""
    # One snapshot: a worker whose parent was killed finishes its tenant.
    engine = create_engine(url, poolclass=NullPool, isolation_level="REPEATABLE READ")
    with engine.connect() as connection:
        tables: dict[str, set[str]] = {f"t_{each:04}": set() for each in range(number)}
        for schema, table in connection.exec_driver_sql(FOUND):
            tables[schema].add(table)
        stored = {
            schema: connection.exec_driver_sql(f"SELECT version_num FROM {schema}.alembic_version")
            .scalars()
            .all()
            for schema, found in tables.items()
            if "alembic_version" in found
        }
    revisions = {schema: (stored.get(schema) or [BASE])[0] for schema in tables}
    for schema, revision in revisions.items():
        assert tables[schema] - {"alembic_version"} == TABLES[revision], (schema, revision, tables[schema])
    return revisions


def start(root: Path, url: URL, jobs: int) -> "subprocess.Popen[bytes]":
    listed = root / "tenants.txt"
    text = url.set(drivername="postgresql").render_as_string(hide_password=False)
    listed.write_text(f"{text} schemas: SELECT nspname FROM pg_namespace WHERE nspname ~ '^t_' ORDER BY 1\n")
    command = [sys.executable, "-m", "pipestate", "fleet", "upgrade", "--databases", str(listed), "--json"]
    options = ["--waves", "1,10%,100%", "--max-failures", "1", "--jobs", str(jobs)]
    return subprocess.Popen(
        [*command, *options], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ
    )


def kill(process: "subprocess.Popen[bytes]", *, workers: bool) -> None:
    """Kill the command; with `workers`, its processes in the middle of a tenant, too."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    pids = [int(each) for each in children.read_text().split()] if workers and children.exists() else []
    for pid in (process.pid, *pids):
        os.kill(pid, signal.SIGKILL)


def upgrade_with_kills(root: Path, url: URL, tenants: int, kills: int, jobs: int = 4) -> Killed:
    """Kill the command after some of its tenants, `kills` times; then let it end."""
    began, hit, chance = time.monotonic(), 0, random.Random(tenants)
    step = max(1, tenants // (kills + 1))
    for run in itertools.count(1):
        process = start(root, url, jobs)
        assert process.stdout is not None
        upgraded, last = 0, {}
        patience = chance.randint(1, max(1, step)) if hit < kills else tenants + 1
        for line in process.stdout:
            last = json.loads(line)
            upgraded += last["kind"] == "database" and bool(last["upgrade"]["applied"])
            if upgraded >= patience and process.poll() is None:
                time.sleep(chance.random() * 0.2)
                kill(process, workers=bool(run % 2))
                hit += 1
                break
        process.stdout.close()
        code = process.wait()
        done = sum(revision == "d4" for revision in where(url, tenants).values())
        print(f"run {run}: {done:,} of {tenants:,} at the head, {hit} kills", file=sys.stderr, flush=True)
        if code != -signal.SIGKILL:
            break
    assert (code, last["kind"], last["exit_codes"]["3"]) == (3, "summary", 1), (code, last)
    revisions = where(url, tenants)
    assert revisions.pop(FAILING) == STAYS_AT
    assert set(revisions.values()) == {"d4"}, revisions
    counted = {each: list(revisions.values()).count(each) for each in set(revisions.values())} | {STAYS_AT: 1}
    return Killed(hit, run, time.monotonic() - began, counted)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=4)
    options = parser.parse_args()
    with embedded_server() as server, tempfile.TemporaryDirectory() as directory:
        with create_engine(server, isolation_level="AUTOCOMMIT").connect() as connection:
            connection.exec_driver_sql("CREATE DATABASE crm")
        url = server.set(database="crm")
        make_tenants(url, options.tenants)
        root = make_project(Path(directory) / "shop")
        done = upgrade_with_kills(root, url, options.tenants, options.kills, options.jobs)
    where_all = ", ".join(f"{number:,} at {revision}" for revision, number in sorted(done.revisions.items()))
    print(
        f"{options.tenants:,} tenants, {done.kills} kills, {done.runs} runs, {done.seconds:.0f} s: {where_all}"
    )
    return 0 if done.kills >= options.kills else 1


if __name__ == "__main__":
    sys.exit(main())
