"""A script for psql that ends after any statement: psql killed, its session ended, Ctrl-C. Then the same script again."""

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from attacks.psql import statements
from attacks.sessions import sessions, wait_until
from integration.migration.test_odd_schemas import difference, everything, schema
from integration.migration.test_soft_drop import HANGING
from support.alembic_runs import Migrations, psql
from support.contract_project import lay_out
from support.legacy_database import fill_legacy
from support.long_form import times
from support.readiness_records import make_ready
from support.servers import Database, Postgres, postgres_binary

pytestmark = pytest.mark.scene

STEP = times(9, long=1)
REACHED = "the strike comes now"
SLEEP = "SELECT pg_sleep(60);\n"
SLEEPING = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'SELECT pg_sleep(60)%'"
# With a column that is derived the restore has all of its parts.
CONTRACT: dict[str, Any] = {
    "columns": {"t": ["x"]},
    "tables": ["log"],
    "derived": {"t": {"x": "'new ' || s.id"}},
    "changed_at": {"t": "changed"},
}


@dataclass(frozen=True)
class Scripts:
    """A database before its contract, and the scripts there and back."""

    database: Database
    up: str
    down: str


def small(postgres: Postgres, root: Path) -> Scripts:
    database = postgres.create()
    database.run(*HANGING)
    project = lay_out(root, database, "script", **CONTRACT)
    return Scripts(database, project.script("upgrade"), project.script("downgrade"))


def shipped(postgres: Postgres, root: Path) -> Scripts:
    del root
    database = postgres.copy_of("at 0006, ready for scripts", _fill_0006)
    migrations = Migrations(database)
    return Scripts(
        database, migrations.script("upgrade", "0006:0007"), migrations.script("downgrade", "0007:0006")
    )


def _fill_0006(database: Database) -> None:
    fill_legacy(database)
    Migrations(database).upgrade("0005")
    make_ready(database)
    Migrations(database).upgrade("0006")


@contextmanager
def begun(database: Database, script: str) -> Iterator["subprocess.Popen[str]"]:
    """Give psql a part of a script; it reads on until its input is closed."""
    process = subprocess.Popen(
        [postgres_binary("psql"), "-X", "-q", database.text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    try:
        process.stdin.write(script)
        process.stdin.flush()
        yield process
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def kill(database: Database, first: str, rest: str) -> None:
    """SIGKILL when the statement is done; nothing more is sent."""
    del rest
    with begun(database, f"{first}\n\\echo {REACHED}\n") as process:
        assert process.stdout is not None
        assert any(REACHED in line for line in process.stdout)
        process.send_signal(signal.SIGKILL)


def terminate(database: Database, first: str, rest: str) -> None:
    """End its session, as an administrator or a failover does; psql still has the rest of the script."""
    with begun(database, f"{first}\n{SLEEP}{rest}\n") as process:
        _wait_for_sleep(database)
        database.value(f"SELECT pg_terminate_backend(pid) {SLEEPING} AND pid <> pg_backend_pid()")
        _read_to_the_end(process)


def interrupt(database: Database, first: str, rest: str) -> None:
    """Press Ctrl-C while something runs; psql still has the rest of the script."""
    with begun(database, f"{first}\n{SLEEP}{rest}\n") as process:
        _wait_for_sleep(database)
        process.send_signal(signal.SIGINT)
        _read_to_the_end(process)


def _wait_for_sleep(database: Database) -> None:
    query = f"SELECT count(*) {SLEEPING} AND state = 'active' AND pid <> pg_backend_pid()"
    wait_until(lambda: database.value(query), "psql has got that far")


def _read_to_the_end(process: "subprocess.Popen[str]") -> None:
    process.communicate(timeout=60)


STRIKES: dict[str, Callable[[Database, str, str], None]] = {
    "psql is killed": kill,
    "its session is ended": terminate,
    "Ctrl-C": interrupt,
}


def struck(database: Database, script: str, strike: str, number: int) -> None:
    """Run a script up to that statement, strike, and wait until nobody is left on the server."""
    parts = statements(script)
    STRIKES[strike](database, "".join(parts[:number]), "".join(parts[number:]))
    wait_until(lambda: sessions(database) == 0, "its session has ended")


def state_of(database: Database) -> dict[str, object]:
    """Everything that is there. A contract that was rolled back has used up its number, so numbers are left out."""
    numbered = "\n".join(schema(database))
    return {
        **everything(database),
        "schema": re.sub(r"_pipestate_\d+_", "_pipestate_n_", numbered).splitlines(),
    }


def finish(database: Database, script: str) -> None:
    done = psql(database, script, "-v", "ON_ERROR_STOP=1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("strike", STRIKES)
@pytest.mark.parametrize("world", [small, shipped])
def test_a_contract_whose_script_ends_anywhere_is_as_before_or_done(
    postgres: Postgres, tmp_path: Path, world: Callable[[Postgres, Path], Scripts], strike: str
) -> None:
    cases = world(postgres, tmp_path / "first")
    before = state_of(cases.database)
    finish(cases.database, cases.up)
    after = state_of(cases.database)
    postgres.drop(cases.database)
    count = len(statements(cases.up)) - 1
    for number in range(1 + list(STRIKES).index(strike), count + 1, STEP):
        cases = world(postgres, tmp_path / str(number))
        struck(cases.database, cases.up, strike, number)
        found = state_of(cases.database)
        if found != after:
            assert found == before, f"{number}: {difference(before, found)}"
            finish(cases.database, cases.up)
            found = state_of(cases.database)
        assert found == after, f"{number}: {difference(after, found)}"
        postgres.drop(cases.database)


@pytest.mark.parametrize("strike", STRIKES)
@pytest.mark.parametrize("world", [small, shipped])
def test_a_restore_whose_script_ends_anywhere_is_finished_by_a_rerun(
    postgres: Postgres, tmp_path: Path, world: Callable[[Postgres, Path], Scripts], strike: str
) -> None:
    """Its parts commit: until the last one a rerun begins anew, and after it the values are back."""
    cases = world(postgres, tmp_path / "first")
    before = state_of(cases.database)
    postgres.drop(cases.database)
    count = len(statements(cases.down)) - 1
    for number in range(1 + list(STRIKES).index(strike), count + 1, STEP):
        cases = world(postgres, tmp_path / str(number))
        finish(cases.database, cases.up)
        struck(cases.database, cases.down, strike, number)
        found = state_of(cases.database)
        if found != before:
            finish(cases.database, cases.down)
            found = state_of(cases.database)
        assert found == before, f"{number}: {difference(before, found)}"
        postgres.drop(cases.database)
