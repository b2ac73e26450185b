"""`pipestate gate PHASE --wait TIME` as a deployment runs it: beside somebody who opens the gate, or does not."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attacks import orders
from attacks.attacked import Started, finish
from attacks.orders import approve
from attacks.project import Project, lay_out
from support.servers import Database, Postgres


@pytest.fixture
def gated(postgres: Postgres, tmp_path: Path) -> Iterator[Project]:
    """The project `attacked` at b2, with a gate that waits for an approval."""
    database = postgres.copy_of("attacked", lambda fresh: orders.fill(fresh, tmp_path / "template"))
    yield lay_out("attacked", tmp_path / "project", database)
    postgres.drop(database)


@contextmanager
def waiting(project: Project, *options: str) -> Iterator[Started]:
    """Start to wait; go on when it has said what is missing."""
    with project.running("-m", "pipestate", "gate", "orders/ready", *options) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "orders/ready: missing: approved\n"
        yield process


def test_it_ends_when_the_gate_opens(gated: Project) -> None:
    with waiting(gated, "--wait", "1m", "--json") as process:
        approve(gated)
        done = finish(process)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"] is True


def test_when_the_time_is_over_the_answer_is_no(gated: Project) -> None:
    done = gated.pipestate("gate", "orders/ready", "--wait", "1s")
    assert done.returncode == 1
    assert done.stderr.startswith("orders/ready: missing: approved\nwarning: checks run as a superuser")
    assert "Closed: orders/ready" in done.stdout


@pytest.mark.scene
def test_a_database_that_is_away_for_a_while_is_evaluated_again(gated: Project, postgres: Postgres) -> None:
    name = gated.database.url.database
    server = Database(postgres.admin)
    with waiting(gated, "--wait", "1m") as process:
        assert process.stderr is not None
        server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        lost = process.stderr.readline()
        assert "is not currently accepting connections" in lost
        assert lost.endswith("trying again\n")
        server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert process.stderr.readline() == "orders/ready: missing: approved\n"
        approve(gated)
        assert finish(process).returncode == 0


@pytest.mark.scene
def test_one_that_does_not_come_back_could_not_be_evaluated(gated: Project, postgres: Postgres) -> None:
    name = gated.database.url.database
    with waiting(gated, "--wait", "3s", "--json") as process:
        Database(postgres.admin).run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        done = finish(process)
    assert done.returncode == 3
    assert json.loads(done.stdout)["ok"] is False
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_the_wait(gated: Project) -> None:
    with waiting(gated, "--wait", "30m") as process:
        process.send_signal(signal.SIGINT)
        done = finish(process, patience_s=10)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "pipestate: interrupted: orders/ready had not opened yet\n"


@pytest.mark.parametrize("text", ["soon", "30", "-1m", "1.5h"])
def test_a_time_that_cannot_be_read_is_wrong_usage(gated: Project, text: str) -> None:
    done = gated.pipestate("gate", "orders/ready", f"--wait={text}")
    assert done.returncode == 2
    assert done.stderr == f"pipestate: --wait {text}: write 30d, 12h, 45m or 30s\n"
