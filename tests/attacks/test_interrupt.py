"""Ctrl-C ends the command and the query that it runs, at once, and says what was done."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from redis import Redis

from attacks.attacked import Done, Started, finish, install_ledger, running
from attacks.orders import AT_B2, BODY, CONTRACT, PAGE, approve, assert_refused, state_of
from attacks.project import PROJECTS, Project
from attacks.sessions import has_ended, is_running, uncommitted, wait_until, waits_for_lock
from support.alembic_runs import ROOT, Migrations
from support.queues import RqBed
from support.servers import Database, Postgres
from support.stale_rows import Stuck, fill_expanded
from support.stuck_sites import Pipeline
from support.versions import sqlalchemy_is

SLOW = (
    "CREATE FUNCTION slow() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN 0; END $$"
)
# The query would go on for ten minutes, or half a minute where that is the limit of a check.
PATIENCE_S = 10


@pytest.fixture
def slow(gated: Project) -> Project:
    """The project with a check that sleeps."""
    approve(gated)
    gated.database.run(SLOW)
    gated.add_check("SELECT slow() AS n", "n = 0", check="sleepy")
    return gated


def wait_for_query(project: Project, process: Started) -> None:
    wait_until(lambda: has_ended(process) or is_running(project.database, "slow()"), "the query runs")
    assert not has_ended(process), finish(process).stderr


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize(
    "command",
    [
        "pipestate verify --timeout 600",
        "pipestate verify --timeout 600 --jobs 2",
        "pipestate verify --timeout 600 --json",
        "pipestate gate orders/ready --timeout 600",
        "alembic upgrade head",
    ],
)
def test_ctrl_c_ends_the_command_and_its_query(slow: Project, command: str, times: int) -> None:
    with slow.running("-m", *command.split()) as process:
        wait_for_query(slow, process)
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)  # two signals at once would be one
        done = finish(process, patience_s=PATIENCE_S)
    wait_until(lambda: not is_running(slow.database, "slow()"), "the server has stopped", patience_s=2)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode not in (0, 1), "1 would mean that the gate is closed"
    assert "interrupted" in (done.stdout + done.stderr).lower()
    assert state_of(slow.database) == AT_B2


def test_ctrl_c_ends_the_queries_of_all_connections(slow: Project) -> None:
    slow.add_check("SELECT slow() + 0 AS n", "n = 0", check="sleepy-too")
    both = (
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND datname = current_database() "
        "AND pid <> pg_backend_pid() AND position('slow()' IN query) > 0"
    )
    with slow.running("-m", "pipestate", "verify", "--timeout", "600", "--jobs", "2") as process:
        wait_until(lambda: has_ended(process) or slow.database.value(both) == 2, "both queries run")
        process.send_signal(signal.SIGINT)
        done = finish(process, patience_s=PATIENCE_S)
    wait_until(lambda: not is_running(slow.database, "slow()"), "the server has stopped", patience_s=2)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 3
    assert "interrupted" in (done.stdout + done.stderr).lower()


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_ctrl_c_through_another_driver(slow: Project, driver: str) -> None:
    if driver == "asyncpg":
        slow.write("migrations/env.py", (PROJECTS / "shop_environments" / "asynchronous.py").read_text())
    slow.edit("alembic.ini", ("postgresql+psycopg2:", f"postgresql+{driver}:"))
    with slow.running("-m", "alembic", "upgrade", "head") as process:
        wait_for_query(slow, process)
        process.send_signal(signal.SIGINT)
        done = finish(process, patience_s=PATIENCE_S)
    if driver != "asyncpg" or sqlalchemy_is("2.0.44"):
        wait_until(lambda: not is_running(slow.database, "slow()"), "the server has stopped", patience_s=2)
    assert done.stderr.strip().endswith(
        "interrupted: the statement was cancelled, nothing of this revision was done"
    )
    assert state_of(slow.database) == AT_B2


def test_ctrl_c_while_a_view_is_read(gated: Project) -> None:
    gated.database.run(SLOW)
    view = "\n```sql\n-- view: sleepy\n-- dialect: postgresql\nSELECT slow() AS n;\n```\n"
    gated.write(PAGE, gated.read(PAGE) + view)
    with gated.running("-m", "pipestate", "status") as process:
        wait_for_query(gated, process)
        process.send_signal(signal.SIGINT)
        done = finish(process, patience_s=PATIENCE_S)
    wait_until(lambda: not is_running(gated.database, "slow()"), "the server has stopped", patience_s=2)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode not in (0, 1)


def test_ctrl_c_in_the_body_leaves_everything_as_it_was(gated: Project) -> None:
    """Under the guard, which hears it for the statements of the revision, too."""
    approve(gated)
    gated.use_environment("guarded")
    gated.database.run(SLOW)
    gated.edit(CONTRACT, (BODY, f'{BODY}\n        op.execute("SELECT slow()")'))
    with gated.running("-m", "alembic", "upgrade", "head") as process:
        wait_for_query(gated, process)
        process.send_signal(signal.SIGINT)
        done = finish(process, patience_s=PATIENCE_S)
    wait_until(lambda: not is_running(gated.database, "slow()"), "the server has stopped", patience_s=2)
    assert done.returncode not in (0, 1)
    assert "Traceback" not in done.stderr, done.stderr
    assert (
        "interrupted: the statement was cancelled, and uncommitted changes of this revision"
        in done.stdout + done.stderr
    )
    assert state_of(gated.database) == AT_B2


def test_ctrl_c_while_the_command_of_a_notification_runs(gated: Project) -> None:
    """What was recorded stays recorded, and the command ends, too."""
    approve(gated)
    install_ledger(gated.database, gated.root)
    ini = gated.root / "alembic.ini"
    notify = "pipestate_notify = sh -c 'sleep 0.5; echo $$ > notifying; exec sleep 600'"
    ini.write_text(ini.read_text().replace("[alembic]\n", f"[alembic]\n{notify}\n", 1))
    notifying = gated.root / "notifying"
    with gated.running("-m", "pipestate", "verify", "--record") as process:
        wait_until(lambda: has_ended(process) or notifying.exists(), "the command runs")
        process.send_signal(signal.SIGINT)
        done = finish(process, patience_s=3)
    assert done.returncode == 3
    assert done.stderr.startswith("pipestate: interrupted: the command of pipestate_notify was running")
    assert gated.database.value("SELECT count(*) FROM pipestate.run WHERE event = 'verify'") == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int(notifying.read_text()), 0)


def ended_or_running(process: Started, database: Database) -> bool:
    return has_ended(process) or is_running(database, "slow()")


def is_quiet(database: Database) -> bool:
    return not is_running(database, "slow()")


@pytest.mark.parametrize(("form", "times"), [("--json", 1), ("", 3)])
def test_ctrl_c_ends_every_query_of_a_fleet_and_shows_what_was_done(
    slow: Project, postgres: Postgres, form: str, times: int
) -> None:
    """One database answers at once; two run the check that sleeps; one is never reached."""
    name = slow.database.url.database
    quick, other, last = (postgres.create(str(name)) for _ in range(3))
    quick.run("DROP FUNCTION slow()", "CREATE FUNCTION slow() RETURNS int LANGUAGE sql AS 'SELECT 0'")
    databases = (quick, slow.database, other, last)
    slow.write("fleet.txt", "".join(f"{each.text}\n" for each in databases))
    command = f"pipestate fleet verify --databases fleet.txt --timeout 600 --jobs 2 {form}"
    with slow.running("-m", *command.split()) as process:
        for database in (slow.database, other):
            wait_until(partial(ended_or_running, process, database), "the query runs")
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        done = finish(process, patience_s=PATIENCE_S)
    for database in databases:
        wait_until(partial(is_quiet, database), "the server has stopped", patience_s=2)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 3
    assert "interrupted" in done.stderr
    if times == 1:
        assert "1 of 4 databases had answered" in done.stderr
        assert str(quick.url.database) in done.stdout
        assert '"interrupted": true' in done.stdout.splitlines()[-1]
    for database in (quick, other, last):
        postgres.drop(database)


# --- The shipped application -----------------------------------------------------------------------

NO_WRITES = "LOCK TABLE sites IN SHARE ROW EXCLUSIVE MODE"


def interrupted_at_its_first_write(database: Database, *command: str, **variables: str) -> Done:
    """Let it read, keep it waiting at its first write, and press Ctrl-C."""
    environment = {"PIPESTATE_DATABASE_URL": database.text, **variables}
    argv = ("-m", "pipestate", *command)
    with uncommitted(database, NO_WRITES), running(*argv, cwd=ROOT, environment=environment) as process:
        wait_until(lambda: has_ended(process) or waits_for_lock(database, "sites"), "it waits to write")
        process.send_signal(signal.SIGINT)
        done = finish(process, patience_s=PATIENCE_S)
    wait_until(lambda: not waits_for_lock(database, "sites"), "the server has stopped", patience_s=2)
    return done


def assert_told(done: Done) -> None:
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    assert done.returncode == 3, done.stderr
    assert "interrupted: " in done.stderr


def test_ctrl_c_in_the_shipped_backfill(postgres: Postgres, tmp_path: Path) -> None:
    database = postgres.copy_of("backfill", fill_expanded)
    stuck = Stuck(database, tmp_path)
    stuck.site("stuck.gov", 2)
    stuck.put("stuck.gov", "pdfs/c/1.pdf", "pdfs/c/2.pdf", "txt/c/1.txt")
    before = database.rows("SELECT * FROM sites ORDER BY subdomain")
    assert_told(interrupted_at_its_first_write(database, "backfill", STORAGE_DIR=str(tmp_path)))
    assert database.rows("SELECT * FROM sites ORDER BY subdomain") == before
    done = stuck.command()
    assert done.returncode in (0, 1), done.stderr
    assert stuck.counters("stuck.gov") == ("ocr", 1, 1, 2)
    postgres.drop(database)


def test_ctrl_c_in_reconcile(pg_expanded: Migrations, redis_url: str, tmp_path: Path) -> None:
    database = pg_expanded.database
    with Redis.from_url(redis_url) as redis:
        redis.flushall()
        pipeline = Pipeline(database, tmp_path, RqBed(redis))
        pipeline.put("stuck.gov", "ocr", ocr_total=1, ocr_completed=1)
        done = interrupted_at_its_first_write(
            database, "reconcile", REDIS_URL=redis_url, STORAGE_DIR=str(tmp_path)
        )
        assert_told(done)
        assert pipeline.queued() == []


@pytest.mark.scene
@pytest.mark.parametrize("after_s", [0.1, 1.5])
def test_ctrl_c_in_the_demo(tmp_path: Path, after_s: float) -> None:
    """A terminal sends it to every process of the group: to the demo, and to the command that it runs."""
    argv = [sys.executable, "-m", "pipestate", "demo"]
    with subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        shown = ""
        while not shown.startswith("$ ") and process.poll() is None:
            shown = process.stdout.readline()
        time.sleep(after_s)
        os.killpg(process.pid, signal.SIGINT)
        done = finish(process, patience_s=60)
    assert "Traceback" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert done.returncode == 3, done.stderr
    assert "interrupted: " in done.stderr


# --- A session that is ended by somebody else ------------------------------------------------------

THEIRS = (
    "SELECT {what}(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND state = 'active' AND position('slow()' IN query) > 0"
)


def test_a_session_that_is_ended_during_a_check_is_a_sentence(slow: Project) -> None:
    with slow.running("-m", "alembic", "upgrade", "head") as process:
        wait_for_query(slow, process)
        slow.database.run(THEIRS.format(what="pg_terminate_backend"))
        done = finish(process, patience_s=PATIENCE_S)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode not in (0, 1)
    assert "run the same again" in done.stdout + done.stderr
    assert state_of(slow.database) == AT_B2


@pytest.mark.parametrize("command", ["alembic upgrade head", "pipestate gate orders/ready"])
def test_a_check_that_somebody_cancels_did_not_take_too_long(slow: Project, command: str) -> None:
    with slow.running("-m", *command.split()) as process:
        wait_for_query(slow, process)
        slow.database.run(THEIRS.format(what="pg_cancel_backend"))
        done = finish(process, patience_s=PATIENCE_S)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert "was cancelled by somebody after" in said
    assert "took longer" not in said
    assert state_of(slow.database) == AT_B2


def test_a_gate_in_a_transaction_that_has_failed_is_a_sentence(gated: Project) -> None:
    approve(gated)
    failing = """    try:
        op.execute("SELECT 1 / 0")
    except Exception:
        pass
"""
    gated.edit(CONTRACT, ("    with gate(\n", f"{failing}    with gate(\n"))
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "current transaction is aborted")


def test_a_project_says_how_long_a_check_of_its_gates_may_take(slow: Project) -> None:
    for given, said in (
        ("0.5", "took longer than 0.5 s: make the query faster, or give it more time"),
        ("soon", "pipestate_timeout = soon: give the seconds"),
        ("-1", "pipestate_timeout = -1: give the seconds"),
    ):
        lines = slow.read("alembic.ini").splitlines()
        kept = [line for line in lines if not line.startswith("pipestate_timeout")]
        slow.write("alembic.ini", "\n".join([kept[0], f"pipestate_timeout = {given}", *kept[1:]]) + "\n")
        assert_refused(slow.alembic("upgrade", "head"), slow.database, said)
