"""`pipestate backfill` as people type it, in a project of their own: killed, started again, run by a revision."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pipestate.migration.failure import MigrationError
from support.alembic_runs import psql
from support.contract_project import Contracted
from support.miniatures import copy_project
from support.programs import run_program, watched
from support.servers import Database

IMPORT = "from alembic import context\n"
TIMES = "SELECT times, count(*) FROM orders GROUP BY times"


@pytest.fixture
def project(database: Database, tmp_path: Path) -> Contracted:
    """The project at a1, with 30,000 orders (SQLite: 3,000)."""
    project = Contracted(copy_project("backfilled", tmp_path), database)
    upgrade(project, "a1")
    series = (
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {}) SELECT n, n % 2 FROM n"
    )
    database.run(
        f"INSERT INTO orders (id, old_state) {series.format(3_000 if database.is_sqlite else 30_000)}"
    )
    return project


def upgrade(project: Contracted, revision: str) -> None:
    from alembic import command

    command.upgrade(project.config(), revision)


def pipestate(project: Contracted, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "DATABASE_URL": project.database.text, "STORAGE_DIR": "/srv"}
    return run_program(["pipestate", *arguments], cwd=project.root, environment=environment)


def test_from_the_first_check_to_the_gate(project: Contracted) -> None:
    ahead = pipestate(project, "backfill", "state")
    assert ahead.returncode == 2
    assert "applies from revision b2 on, and the database is at a1: upgrade first" in ahead.stderr
    upgrade(project, "b2")
    bare = pipestate(project, "backfill")
    assert (bare.returncode, bare.stdout) == (2, "")
    assert (
        bare.stderr
        == "pipestate: name a backfill, as pipestate backfill orders/state; there is orders/state\n"
    )
    wrong = pipestate(project, "backfill", "orders/stat")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "pipestate: no runbook has a backfill orders/stat; there is orders/state\n",
    )
    storage = pipestate(project, "backfill", "state", "--storage-dir", "/srv")
    assert storage.returncode == 2
    assert "--storage-dir works only without a backfill name: leave out state" in storage.stderr
    rows = 3_000 if project.database.is_sqlite else 30_000
    dry = json.loads(
        pipestate(project, "backfill", "state", "--dry-run", "--batch-size", "1000", "--json").stdout
    )
    assert (dry["backfill"], dry["dry_run"], dry["table"]) == ("orders/state", True, "orders")
    assert (dry["first_key"], dry["last_key"]) == ("1", str(rows))
    assert dict(project.database.rows(TIMES)) == {0: rows}, "a dry run wrote"  # type: ignore[arg-type]
    assert pipestate(project, "verify").returncode == 1
    done = json.loads(pipestate(project, "backfill", "orders/state", "--json").stdout)
    assert (done["rows_updated"], done["rows_left"], done["resumed_after"]) == (rows, 0, None)
    assert pipestate(project, "verify").returncode == 0
    again = pipestate(project, "backfill", "state")
    assert (again.returncode, again.stdout) == (0, "orders/state: nothing to do, no row of orders matches\n")
    (line,) = json.loads(pipestate(project, "history", "--event", "backfill", "--json").stdout)
    assert (line["kind"], line["what"]) == ("backfill", f"orders/state finished: {rows:,} rows of orders")
    shown = pipestate(project, "runbook", "show", "orders", "--phase", "fill").stdout
    assert "run by pipestate backfill orders/state\n--   UPDATE orders" in shown
    assert dict(project.database.rows(TIMES)) == {1: rows}  # type: ignore[arg-type]


def test_killed_in_the_middle_it_goes_on_and_no_row_is_updated_twice(project: Contracted) -> None:
    upgrade(project, "b2")
    command = ["pipestate", "backfill", "state", "--batch-size", "20"]
    environment = {**os.environ, "DATABASE_URL": project.database.text}
    for end in (signal.SIGKILL, signal.SIGINT):
        with watched(command, cwd=project.root, environment=environment) as program:
            before = batches(project.database)
            patience = time.monotonic() + 20
            while batches(project.database) < before + 5 and time.monotonic() < patience:
                time.sleep(0.02)
            program.send_signal(end)
            _, said = program.communicate(timeout=20)
        assert batches(project.database) >= before + 5, said
    assert program.returncode == 3
    assert "interrupted: " in said
    assert "; the same command continues there" in said
    done = pipestate(project, "backfill", "state")
    assert done.returncode == 0, done.stderr
    assert "; none is left\nwent on behind id " in done.stdout
    ((times, _),) = project.database.rows(TIMES)
    assert times == 1


def test_another_terminal_pauses_it_and_lets_it_go_on(project: Contracted) -> None:
    """One row a batch: thousands of batches are left when the other terminal has started."""
    upgrade(project, "b2")
    early = pipestate(project, "backfill", "state", "--pause")
    assert (early.returncode, "has no unfinished run to control" in early.stderr) == (2, True)
    command = ["pipestate", "backfill", "state", "--batch-size", "1"]
    environment = {**os.environ, "DATABASE_URL": project.database.text}
    with watched(command, cwd=project.root, environment=environment) as program:
        patience = time.monotonic() + 20
        while batches(project.database) < 3 and time.monotonic() < patience:
            time.sleep(0.02)
        paused = pipestate(project, "backfill", "state", "--pause", "--retune", "1000")
        assert paused.returncode == 0, paused.stderr
        assert "a batch takes 1,000 rows" in paused.stdout
        assert paused.stdout.endswith("Next: pipestate backfill orders/state --resume\n")
        time.sleep(0.3)
        before = batches(project.database)
        time.sleep(0.5)
        assert batches(project.database) == before
        assert json.loads(pipestate(project, "backfill", "state", "--resume", "--json").stdout) == {
            "backfill": "orders/state",
            "paused_by": None,
            "batch_rows": 1000,
        }
        out, said = program.communicate(timeout=60)
    assert (program.returncode, "; none is left" in out, "paused by " in said) == (0, True, True), said
    wrong = pipestate(project, "backfill", "state", "--retune", "-1")
    assert wrong.returncode == 2


def batches(database: Database) -> int:
    return int(str(database.value("SELECT coalesce(max(batches), 0) FROM pipestate.backfill_progress")))


CONTRACT = """from pipestate import Contract

revision, down_revision = "c3", "b2"
contract = Contract(
    "orders/fill", columns={"orders": ["old_state"]}, derived={"orders": {"old_state": "1"}}, revision=revision
)
upgrade, downgrade = contract.upgrade, contract.downgrade
"""


@pytest.mark.parametrize("is_guarded", [True, False])
def test_once_the_contract_was_applied_it_is_refused_until_its_column_is_made_anew(
    pg: Database, tmp_path: Path, *, is_guarded: bool
) -> None:
    from alembic import command

    project = Contracted(copy_project("backfilled", tmp_path), pg)
    (project.root / "migrations" / "versions" / "c3_filled.py").write_text(CONTRACT)
    env = project.root / "migrations" / "env.py"
    if is_guarded:
        text = env.read_text()
        env.write_text(
            f"{text.partition(IMPORT)[0]}{IMPORT}from pipestate.environment import guard\nguard(context)\n{text.partition(IMPORT)[2]}"
        )
    upgrade(project, "a1")
    pg.run("INSERT INTO orders (id, old_state) VALUES (1, 1), (2, 0)")
    upgrade(project, "b2")
    assert pipestate(project, "backfill", "state").returncode == 0
    upgrade(project, "c3")
    for _ in ("contracted", "restored"):
        for dry_run in ([], ["--dry-run"]):
            refused = pipestate(project, "backfill", "state", *dry_run)
            assert (refused.returncode, refused.stdout) == (2, "")
            assert "orders/state is refused since the contract c3 was applied" in refused.stderr
        command.downgrade(project.config(), "b2")
    if is_guarded:
        command.downgrade(project.config("force=made anew"), "a1")
        upgrade(project, "b2")
        assert pipestate(project, "backfill", "state").returncode == 0


def test_a_revision_runs_it(project: Contracted) -> None:
    upgrade(project, "c3")
    ((times, _),) = project.database.rows(TIMES)
    assert times == 1
    if not project.database.is_sqlite:
        row = project.database.rows("SELECT rows_left, revision FROM pipestate.backfill_progress")
        assert row == [(0, None)]


def test_a_script_demands_it(pg: Database, tmp_path: Path) -> None:
    project = Contracted(copy_project("backfilled", tmp_path), pg)
    upgrade(project, "b2")
    pg.run("INSERT INTO orders (id) VALUES (1)")
    config = project.config()
    from alembic import command

    command.upgrade(config, "b2:c3", sql=True)
    script = config.output_buffer.getvalue()  # type: ignore[union-attr]
    page = (project.root / "runbooks" / "orders.md").read_text()
    block = page.rpartition("```sql\n")[2].removesuffix("```\n")
    pasted = psql(pg, block, "-v", "first=2", "-v", "last=9", "-v", "ON_ERROR_STOP=1")
    assert (pasted.returncode, pasted.stderr) == (0, "")
    refused = psql(pg, script, "-v", "ON_ERROR_STOP=1")
    assert "run pipestate backfill orders/state, then this script again" in refused.stderr
    assert pg.value("SELECT version_num FROM alembic_version") == "b2"
    pg.run("UPDATE orders SET state = 'open'")
    assert psql(pg, script, "-v", "ON_ERROR_STOP=1").returncode == 0
    assert pg.value("SELECT version_num FROM alembic_version") == "c3"


def test_a_revision_says_plainly_why_it_cannot(pg: Database, tmp_path: Path) -> None:
    project = Contracted(copy_project("backfilled", tmp_path), pg)
    upgrade(project, "b2")
    pg.run("INSERT INTO orders (id) VALUES (1)", "ALTER TABLE orders DROP CONSTRAINT orders_pkey")
    with pytest.raises(MigrationError, match="id of orders has no index for the batches"):
        upgrade(project, "c3")
    pg.run("ALTER TABLE orders ADD PRIMARY KEY (id)", "DROP SCHEMA pipestate CASCADE")
    with pytest.raises(MigrationError, match="this database has no ledger"):
        upgrade(project, "c3")
