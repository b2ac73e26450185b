"""Alembic as a DBA types it: exit codes, one clear sentence, no traceback, no password."""

import os
import signal

import pytest

from support.alembic_runs import ROOT, Migrations, run_alembic
from support.legacy_database import fill_legacy
from support.programs import watched
from support.servers import Database, Postgres
from support.sites import wait_for_locks

PASSWORD = "s3cr3t-pa55w0rd"


def refused(*arguments: str, **environment: str) -> str:
    """Run it, see that it fails plainly, and return what it said on stderr."""
    done = run_alembic(*arguments, **environment)
    assert done.returncode != 0
    assert "Traceback" not in done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    complaints = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    assert len(complaints) == 1, done.stderr
    return complaints[0]


def test_no_database_named() -> None:
    assert "give --database-url (Alembic: -x url=...)" in refused("upgrade", "head")


def test_an_unreachable_server() -> None:
    url = f"postgresql://app:{PASSWORD}@127.0.0.1:1/civic"
    said = refused("upgrade", "head", DATABASE_URL=url)
    assert "onnection refused" in said
    assert "app:***@127.0.0.1:1/civic" in said
    assert "check that the server runs" in said


@pytest.mark.parametrize("command", [["current"], ["downgrade", "base"], ["stamp", "0003"], ["check"]])
def test_an_unreachable_server_whatever_the_command(command: list[str]) -> None:
    assert "onnection refused" in refused(*command, DATABASE_URL=f"postgres://app:{PASSWORD}@127.0.0.1:1/x")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "is not a database URL"),
        (f"postgresql://app:{PASSWORD}@host:notaport/x", "is not a database URL"),
        (f"mysql://app:{PASSWORD}@host/x", "works with PostgreSQL and SQLite"),
        ("sqlite:////nowhere/at/all/x.sqlite", "check the path"),
    ],
)
def test_a_wrong_url(url: str, said: str) -> None:
    assert said in refused("upgrade", "head", PIPESTATE_DATABASE_URL=url)


def test_a_database_that_does_not_exist(postgres: Postgres) -> None:
    url = Database(postgres.admin.set(database="no_such_database")).text
    assert "create the database first" in refused("upgrade", "head", DATABASE_URL=url)


def test_a_missing_permission(postgres: Postgres, pg_legacy: Migrations) -> None:
    database = pg_legacy.database
    role = f"pipestate_reader_{database.url.database}"
    database.run(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    reader = Database(database.url.set(username=role, password=PASSWORD))
    said = refused("upgrade", "head", DATABASE_URL=reader.text)
    assert "permission denied" in said
    assert "connect as the owner" in said
    assert pg_legacy.revision() is None
    database.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_an_owner_of_the_tables_who_is_no_superuser_can_go_all_the_way(postgres: Postgres) -> None:
    database = postgres.create()
    role = f"pipestate_owner_{database.url.database}"
    database.run(
        f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'",
        f"ALTER DATABASE {database.url.database} OWNER TO {role}",
    )
    owner = Database(database.url.set(username=role, password=PASSWORD))
    fill_legacy(owner)
    migrations = Migrations(owner)
    migrations.contract()
    migrations.downgrade("base")
    owner.engine.dispose()
    postgres.drop(database)
    admin = Database(postgres.admin)
    admin.run(f"DROP ROLE {role}")


def test_the_option_wins_over_the_environment(pg: Database) -> None:
    wrong = "postgresql://127.0.0.1:1/x"
    done = run_alembic(
        "-x", f"url={pg.text}", "upgrade", "0001", PIPESTATE_DATABASE_URL=wrong, DATABASE_URL=wrong
    )
    assert done.returncode == 0, done.stderr
    assert Migrations(pg).revision() == "0001"


def test_pipestate_database_url_wins_over_database_url(pg: Database) -> None:
    done = run_alembic(
        "upgrade", "0001", PIPESTATE_DATABASE_URL=pg.text, DATABASE_URL="postgresql://127.0.0.1:1/x"
    )
    assert done.returncode == 0, done.stderr


def test_a_closed_gate_on_the_command_line(pg_legacy: Migrations) -> None:
    done = pg_legacy.cli("upgrade", "head")
    assert done.returncode == 255
    assert "Traceback" not in done.stderr
    assert "the gate sites-consolidation/readiness is closed" in done.stderr
    assert "backup-taken: not signed off within 24h" in done.stderr
    assert "soak: " in done.stderr
    assert "pipestate verify sites-consolidation --phase readiness" in done.stderr
    assert pg_legacy.revision() == "0005"


def test_force_without_a_reason(pg_legacy: Migrations) -> None:
    assert "-x force= is empty" in refused(
        "-x", "force=", "upgrade", "head", DATABASE_URL=pg_legacy.database.text
    )


def test_ctrl_c_while_waiting_for_a_lock(pg_legacy: Migrations) -> None:
    pg_legacy.upgrade("0002")
    with pg_legacy.database.begin() as holder:
        holder.exec_driver_sql("LOCK TABLE sites IN ACCESS SHARE MODE")
        argv = ["alembic", "-x", f"url={pg_legacy.database.text}", "upgrade", "0003"]
        with watched(argv, cwd=ROOT, environment=os.environ) as program:
            wait_for_locks(pg_legacy.database, 1)
            program.send_signal(signal.SIGINT)
            _, err = program.communicate(timeout=30)
    assert program.returncode != 0
    assert "Traceback" not in err
    assert "nothing is half done" in err
    assert pg_legacy.revision() == "0002"


def test_a_file_that_is_no_database(tmp_path: "object") -> None:
    path = f"{tmp_path}/notes.sqlite"
    with open(path, "w") as file:  # noqa: PTH123
        file.write("Dear diary, this is not a database. " * 100)
    assert "not a SQLite database" in refused("upgrade", "head", DATABASE_URL=f"sqlite:///{path}")


def test_a_missing_revision(pg: Database) -> None:
    done = run_alembic("upgrade", "0042", DATABASE_URL=pg.text)
    assert done.returncode != 0
    assert "Can't locate revision identified by '0042'" in done.stderr
