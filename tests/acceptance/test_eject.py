"""`pipestate eject`: a project leaves pipestate, and its migrations runs where pipestate cannot be imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipestate.migration.postgresql.session import LOCK_KEY
from support.programs import run_program
from support.servers import Database
from support.shop_project import Shop, open_shop

WITHOUT = "import sys; sys.modules['pipestate'] = None; from alembic.config import main; main(sys.argv[1:])"


def pipestate(shop: Shop, *arguments: str) -> "subprocess.CompletedProcess[str]":
    done = run_program(["pipestate", *arguments], cwd=shop.root, environment=os.environ)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def alembic_alone(shop: Shop, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Alembic in a Python in which `import pipestate` fails."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    return subprocess.run(command, cwd=shop.root, capture_output=True, text=True, check=False)


def files(shop: Shop) -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(shop.root.rglob("*.py"))}


@pytest.fixture
def shop(database: Database, tmp_path: Path) -> Shop:
    """Open a shop whose contract is applied; it dropped a column."""
    opened = open_shop(tmp_path / "shop", database)
    contract = opened.root / "migrations/versions/c3_no_log.py"
    contract.write_text(contract.read_text().replace('tables=["order_log"], ', ""))
    opened.upgrade("b2")
    opened.fill()
    opened.approve()
    opened.upgrade()
    return opened


def test_a_soft_dropped_column_is_named_with_both_commands(shop: Shop) -> None:
    before = files(shop)
    later = pipestate(shop, "eject", "--yes")
    assert "a downgrade below c3 would undo later revisions, too: d4" in later.stderr
    assert "c3-1" not in later.stderr
    shop.downgrade("c3")
    done = pipestate(shop, "eject", "--yes")
    assert (done.returncode, done.stdout, files(shop)) == (2, "", before)
    assert "old_status of " in done.stderr
    assert "pipestate purge --older-than 0m" in done.stderr
    assert "pipestate downgrade c3-1" in done.stderr
    assert {each for each in shop.tables() if "pipestate" in each}


def test_the_migrations_run_without_pipestate(shop: Shop) -> None:
    assert pipestate(shop, "purge", "--older-than", "0m", "--yes").returncode == 0
    before = files(shop)
    shown = pipestate(shop, "eject", "--dry-run")
    assert (shown.returncode, files(shop)) == (0, before), shown.stderr
    assert '+    op.drop_column("orders", "old_status")' in shown.stdout
    assert "-guard(context)" in shown.stdout
    done = pipestate(shop, "eject", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("dropped the ledger\n")
    assert not {each for each in shop.tables() if "pipestate" in each}
    assert not [path for path, text in files(shop).items() if "pipestate" in text]
    for command in (["downgrade", "base"], ["upgrade", "head"], ["downgrade", "c3-1"], ["upgrade", "head"]):
        ran = alembic_alone(shop, *command)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert shop.version() == "d4"
    again = pipestate(shop, "eject", "--yes", "--version-table", "alembic_version")
    assert (again.returncode, again.stdout.startswith("nothing to do")) == (0, True), again.stderr


def test_without_an_answer_nothing_happens(shop: Shop) -> None:
    assert pipestate(shop, "purge", "--older-than", "0m", "--yes").returncode == 0
    before, tables = files(shop), shop.tables()
    assert pipestate(shop, "eject").returncode == 1
    assert (files(shop), shop.tables()) == (before, tables)


def test_a_revision_that_is_not_certain_stops_all_of_it(shop: Shop) -> None:
    assert pipestate(shop, "purge", "--older-than", "0m", "--yes").returncode == 0
    odd = shop.root / "migrations/versions/d4_receipts.py"
    odd.write_text(odd.read_text() + "\n\nfrom pipestate.ddl import add_columns\n\nadd = [add_columns]\n")
    before, tables = files(shop), shop.tables()
    done = pipestate(shop, "eject", "--yes")
    assert done.returncode == 2
    assert "d4_receipts.py:19: add_columns: write op.add_column" in done.stderr
    assert "nothing was changed" in done.stderr
    assert (files(shop), shop.tables()) == (before, tables)


def test_a_dropped_table_does_not_return(database: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path / "shop", database)
    shop.upgrade("b2")
    done = pipestate(shop, "eject", "--yes")
    assert done.returncode == 0, done.stderr
    assert alembic_alone(shop, "upgrade", "head").returncode == 0
    assert "order_log" not in shop.tables()
    refused = alembic_alone(shop, "downgrade", "b2")
    said = (
        "NotImplementedError: revision c3 dropped table order_log, orders.old_status for good: load a backup"
    )
    assert (refused.returncode, said in refused.stderr) == (1, True), refused.stderr


def test_a_running_migration_and_an_unfinished_restore_stop_it(pg: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path / "shop", pg)
    shop.upgrade("b2")
    before = files(shop)
    with pg.begin() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK_KEY[0]}, {LOCK_KEY[1]})")
        running = pipestate(shop, "eject", "--yes")
    assert (running.returncode, files(shop)) == (2, before)
    assert "a migration is running" in running.stderr
    pg.run(
        "INSERT INTO pipestate.soft_drop (revision, kind, schema_name, table_name, name, state, dropped_at) "
        "VALUES ('c3', 'columns', 'public', 'orders', 'orders', 'validating', now())"
    )
    unfinished = pipestate(shop, "eject", "--yes")
    assert (unfinished.returncode, files(shop)) == (2, before)
    assert "the restore of orders has not ended" in unfinished.stderr


def test_a_file_that_cannot_be_written_keeps_the_ledger(pg: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path / "shop", pg)
    shop.upgrade("b2")
    versions = sorted((shop.root / "migrations/versions").glob("*.py"))
    contract = next(path for path in versions if "Contract" in path.read_text())
    contract.rename(contract.with_name("x" * 250 + ".py"))  # too long for the name of a file beside it
    before, tables = files(shop), shop.tables()
    done = pipestate(shop, "eject", "--yes")
    assert (done.returncode, files(shop), shop.tables()) == (2, before, tables), done.stderr
    assert "nothing was written" in done.stderr
