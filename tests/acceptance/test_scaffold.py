"""`init` and `revision --contract`: what they write, what they refuse, and that they write all of it or nothing."""

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from support.miniatures import copy_project
from support.programs import run_program

Done = subprocess.CompletedProcess[str]


def pipestate(directory: Path, *arguments: str) -> Done:
    done = run_program(["pipestate", *arguments], cwd=directory, environment=os.environ)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def must(done: Done) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()
    }


def ruff_finds_nothing(*paths: Path) -> None:
    """With its default settings, which are not those of this repository."""
    for command in (["check"], ["format", "--check"]):
        argv = [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", *map(str, paths)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A project as `alembic init` leaves it."""
    done = run_program(["alembic", "init", "alembic"], cwd=tmp_path, environment=os.environ)
    assert done.returncode == 0
    return tmp_path


def test_a_start_a_contract_and_a_second_page(empty: Path) -> None:
    before = files(empty)
    dry = must(pipestate(empty, "init", "orders", "--rev-id", "a1", "--dry-run"))
    assert files(empty) == before
    assert "would write runbooks/orders.md:" in dry
    assert "    def upgrade() -> None:\n        install_ledger()\n" in dry
    said = must(pipestate(empty, "init", "orders", "--rev-id", "a1"))
    assert "wrote alembic/versions/a1_pipestate_ledger.py" in said
    assert "    guard(context)\n" in said
    assert "In alembic/env.py, as an argument of context.configure(...)" in said
    assert "    transaction_per_migration=True,\n" in said
    assert said.endswith("Next: write the checks of runbooks/orders.md, then alembic upgrade head\n")
    assert {name: text for name, text in files(empty).items() if name in before} == before

    drop = (
        "--drop-table",
        "sales.order_log",
        "--drop-column",
        "orders.old_status",
        "--drop-column",
        "orders.x",
    )
    contract = ("revision", "--contract", "orders/readiness", *drop, "--rev-id", "b2", "--recheck", "unused")
    page = (empty / "runbooks/orders.md").read_text()
    dry = must(pipestate(empty, *contract, "--dry-run"))
    assert "runbooks/orders.md" not in dry, "the phase opens what checks its gate, and ends with it"
    assert (empty / "runbooks/orders.md").read_text() == page
    said = must(pipestate(empty, *contract, "-m", 'the log "goes"'))
    assert (
        "  readiness guards b2; its checks stop after that revision\n  phases that continue after this revision: expand, backfill\n"
        in said
    )
    assert (empty / "runbooks/orders.md").read_text() == page
    assert CONTRACT in (empty / "alembic/versions/b2_the_log_goes.py").read_text()
    assert "1 runbook, 0 findings" in pipestate(empty, "runbook", "lint").stderr
    ruff_finds_nothing(empty / "alembic/versions")

    said = must(pipestate(empty, "init", "second"))
    assert "ledger" not in said, "one ledger serves every page"
    assert 'expand: {from: "a1"}' in (empty / "runbooks/second.md").read_text()
    assert "2 runbooks, 0 findings" in pipestate(empty, "runbook", "lint").stderr


def test_a_phase_before_it_that_reads_what_is_dropped_ends_with_it(empty: Path) -> None:
    must(pipestate(empty, "init", "orders", "--rev-id", "a1"))
    page = empty / "runbooks/orders.md"
    text = page.read_text().replace(
        "SELECT 'write this check: list the rows that are not copied' AS fault",
        "SELECT old_status FROM orders",
    )
    page.write_text(text)
    contract = ("revision", "--contract", "orders/readiness", "--drop-column", "orders.old_status")
    said = must(pipestate(empty, *contract, "--rev-id", "b2"))
    assert "  phases that end at this revision, too: backfill\n" in said
    assert page.read_text() == text.replace('backfill: {from: "a1"}', 'backfill: {from: "a1", until: "b2"}')

    said = must(pipestate(empty, *contract[:-1], "orders.old_place", "--rev-id", "c3"))
    assert "  readiness guards c3; its checks stop after that revision\n" in said
    assert "1 runbook, 0 findings" in pipestate(empty, "runbook", "lint").stderr


def test_a_misspelt_table_is_a_warning_with_the_near_name(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    must(pipestate(empty, "init", "orders", "--rev-id", "a1"))
    with sqlite3.connect(empty / "shop.db") as connection:
        connection.execute("CREATE TABLE order_log (id INTEGER)")
    monkeypatch.setenv("DATABASE_URL", "sqlite:///shop.db")
    contract = ("revision", "--contract", "orders/readiness", "--dry-run", "--drop-table")
    done = pipestate(empty, *contract, "order_lgo")
    assert (done.returncode, done.stderr) == (
        0,
        "warning: the database has no table order_lgo, but order_log\n",
    )
    for name in ("order_log", "customers"):
        assert pipestate(empty, *contract, name).stderr == ""


def test_a_phase_that_has_ended_takes_no_contract(empty: Path) -> None:
    must(pipestate(empty, "init", "orders", "--rev-id", "a1"))
    page = empty / "runbooks/orders.md"
    page.write_text(
        page.read_text().replace(
            'readiness: {from: "a1", soak: 7d, of: backfill}', 'readiness: {until: "a1"}'
        )
    )
    before = files(empty)
    done = pipestate(empty, "revision", "--contract", "orders/readiness", "--drop-table", "t")
    assert done.returncode == 2
    assert "phase readiness ended with revision a1, so its gate could never open" in done.stderr
    text = page.read_text().replace('readiness: {until: "a1"}', "readiness:")
    start, ready, rest = text.partition("## Phase: readiness")
    own = "".join(line for line in rest.splitlines(keepends=True) if not line.startswith("- "))
    page.write_text(start + ready + own.replace("-- require:", "-- level: warn\n-- require:"))
    done = pipestate(
        empty, "revision", "--contract", "orders/readiness", "--drop-table", "t", "--rev-id", "b2"
    )
    assert done.returncode == 2
    assert "phase readiness opens b2 but has no blocking check: its gate could never open" in done.stderr
    assert files(empty).keys() == before.keys()


CONTRACT = """contract = Contract(
    "orders/readiness",
    tables=["sales.order_log"],
    columns={"orders": ["old_status", "x"]},
    recheck=["unused"],
    revision=revision,
)
upgrade, downgrade = contract.upgrade, contract.downgrade
"""


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Revisions a1 - b2 and a page `orders` with the phase `ready`; nothing may be written into it."""
    return copy_project("stock", tmp_path_factory.mktemp("projects"))


DROP = ("--drop-table", "t")
READY = ("revision", "--contract", "orders/ready")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("init", "orders"), "runbooks/orders.md exists already, and is not overwritten"),
        (("init", "My Orders"), "a runbook cannot be called My Orders"),
        (("init", "more", "--rev-id", "b2"), "there is a revision b2 already"),
        (("init", "more", "--shipped"), "those migrations come with pipestate"),
        ((*READY, *DROP, "--rev-id", "a1"), "there is a revision a1 already"),
        (READY, "nothing to drop: give --drop-table"),
        ((*READY, *DROP, *DROP), "--drop-table t is given twice"),
        ((*READY, *DROP, "--drop-column", "t.c"), "t is dropped as a whole and by columns"),
        ((*READY, "--drop-column", "t.c", "--drop-column", "t.c"), "--drop-column t.c is given twice"),
        ((*READY, "--drop-column", "c"), "--drop-column c: write [SCHEMA.]TABLE.COLUMN"),
        ((*READY, "--drop-table", 'a"b'), '--drop-table a"b: write [SCHEMA.]TABLE'),
        (("revision", "--contract", "orders", *DROP), "orders names no phase: write RUNBOOK/PHASE"),
        (("revision", "--contract", "items/ready", *DROP), "there is no runbook items; there are orders"),
        (("revision", "--contract", "orders/rdy", *DROP), "has no phase rdy; there are ready"),
        ((*READY, *DROP, "--recheck", "nothing"), "--recheck nothing: orders/ready has no such check"),
        ((*READY, *DROP, "-m", "two\nlines"), "the message of a revision is one line"),
        ((*READY, *DROP, "--engine", "one"), "the revisions of this project take no engine_name"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_input_is_one_sentence_and_nothing_is_written(
    stock: Path, arguments: tuple[str, ...], said: str
) -> None:
    before = files(stock)
    done = pipestate(stock, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert files(stock) == before


def test_a_project_without_a_page_names_what_writes_one(empty: Path) -> None:
    url = ("--database-url", f"sqlite:///{empty / 'app.sqlite'}")
    config = ("--config", f"{empty}/alembic.ini")
    for command in (["verify", *url], ["gate", "ready", *url], ["runbook", "lint"]):
        done = pipestate(empty.parent, *command, *config)
        assert done.returncode == 2
        assert f"`pipestate init NAME --config {empty}/alembic.ini` writes one" in done.stderr, done.stderr
