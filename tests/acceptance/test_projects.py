"""pipestate in somebody else's project: found, read and served without importing anything of it."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import make_url

from pipestate.ledger.install import install
from support.miniatures import copy_project
from support.programs import run_program
from support.servers import Database

Done = subprocess.CompletedProcess[str]
PASSWORD = "s3cr3t-pa55w0rd"
MEMBERS = (
    "CREATE TABLE members (fee varchar(9))",
    "CREATE TABLE alembic_version (version_num varchar(32) NOT NULL PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('m1')",
)


def pipestate(directory: Path, *arguments: str, **environment: str) -> Done:
    done = run_program(["pipestate", *arguments], cwd=directory, environment={**os.environ, **environment})
    assert "Traceback" not in done.stderr, done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    return done


def refused(directory: Path, *arguments: str, **environment: str) -> str:
    """Run it, see that it is wrong usage, explained in one sentence, and return that."""
    done = pipestate(directory, *arguments, **environment)
    assert (done.returncode, done.stdout) == (2, ""), done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


@pytest.fixture
def members(tmp_path: Path, database: Database) -> Path:
    """A project whose env.py and revisions need a package that is not installed; its database has a ledger."""
    database.run(*MEMBERS)
    with database.engine.begin() as connection:
        install(connection)
    return copy_project("missing_package", tmp_path)


# --- Without its packages --------------------------------------------------------------------------


def test_plan(members: Path, database: Database) -> None:
    done = pipestate(members, "plan", "--json", DATABASE_URL=database.text)
    plan = json.loads(done.stdout)
    assert (done.returncode, plan["revision"], plan["head"]) == (0, "m1", "m2")
    assert [(step["revision"], step["applied"]) for step in plan["steps"]] == [("m1", True), ("m2", False)]
    assert plan["steps"][1]["gates"] == [{"phase": "members/moved", "gate": "open"}]
    assert plan["next"] == "the gate is open: alembic upgrade head"


def test_plan_shows_the_gate_of_a_runbook_that_is_not_default(members: Path, database: Database) -> None:
    page = members / "runbooks" / "members.md"
    page.write_text(page.read_text().replace("default: true\n", ""))
    done = pipestate(members, "plan", "--json", DATABASE_URL=database.text)
    assert json.loads(done.stdout)["steps"][1]["gates"] == [{"phase": "members/moved", "gate": "open"}]


def test_gate_and_verify(members: Path, database: Database) -> None:
    assert pipestate(members, "gate", "moved", DATABASE_URL=database.text).returncode == 0
    database.run("INSERT INTO members VALUES ('7')")
    done = pipestate(members, "gate", "members/moved", "--json", DATABASE_URL=database.text)
    assert (done.returncode, json.loads(done.stdout)["database"]["revision"]) == (1, "m1")
    verified = pipestate(members, "verify", DATABASE_URL=database.text)
    assert verified.returncode == 1
    assert "revision m1 of m2" in verified.stdout


def test_status(members: Path, database: Database) -> None:
    database.run("INSERT INTO members VALUES ('7')")
    done = pipestate(members, "status", "--json", DATABASE_URL=database.text)
    (view,) = json.loads(done.stdout)["views"]
    assert (view["runbook"], view["id"], view["rows"]) == ("members", "fees", [{"fee": "7", "members": 1}])


def test_a_gate_that_no_revision_checks_is_found(members: Path, database: Database) -> None:
    revision = members / "alembic" / "versions" / "m2.py"
    revision.write_text(revision.read_text().replace("with passed(", "with open("))
    for command in (["plan"], ["verify"], ["gate", "moved"]):
        done = pipestate(members, *command, DATABASE_URL=database.text)
        assert done.returncode == 2, command
        assert (
            "runbooks/members.md:9: phase moved opens m2, but alembic/versions/m2.py:8 does not"
            in done.stderr
        )
    linted = pipestate(members, "runbook", "lint")
    assert linted.returncode == 2
    assert linted.stdout.startswith(
        "runbooks/members.md:9: phase moved opens m2, but alembic/versions/m2.py:8"
    )
    assert pipestate(members, "runbook", "lint", "runbooks/members.md").returncode == 2


def test_a_file_named_like_the_runbook_does_not_replace_it(
    members: Path, database: Database, tmp_path: Path
) -> None:
    """Names are resolved in the project's directory, never in the one that somebody happens to be in."""
    (tmp_path / "members").write_text("---\nrunbook: members\n---\n")
    (tmp_path / "runbooks").mkdir()
    ini = str(members / "alembic.ini")
    done = pipestate(tmp_path, "gate", "members/moved", "--json", "--config", ini, DATABASE_URL=database.text)
    assert (done.returncode, json.loads(done.stdout)["summary"]["passed"]) == (0, 1)
    assert pipestate(tmp_path, "verify", "members", "-c", ini, DATABASE_URL=database.text).returncode == 0


# --- Which project ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    ["plan", "verify", "status", "gate x", "history", "attest x --by y", "observe", "backfill", "reconcile"],
)
def test_outside_a_project_nothing_is_guessed(tmp_path: Path, command: str) -> None:
    said = refused(tmp_path, *command.split(), DATABASE_URL="sqlite:///x")
    assert said.startswith(
        "pipestate: there is no alembic.ini here: go to the project's directory, or name it"
    )
    assert list(tmp_path.iterdir()) == []


def test_outside_a_project_a_page_can_be_linted(tmp_path: Path) -> None:
    page = copy_project("stock", tmp_path) / "runbooks" / "orders.md"
    done = pipestate(tmp_path, "runbook", "lint", str(page))
    assert (done.returncode, done.stderr) == (0, "1 runbook, 0 findings\n")


def test_the_shipped_migrations_are_served_when_it_is_named(tmp_path: Path, database: Database) -> None:
    plan = pipestate(tmp_path, "plan", "--shipped", DATABASE_URL=database.text).stdout
    assert 'Next: alembic -c "$(pipestate --alembic-ini)" upgrade 0005' in plan
    done = pipestate(tmp_path, "verify", "--shipped", DATABASE_URL=database.text)
    assert "Next: pipestate plan --shipped" in done.stdout


def test_a_bare_backfill_in_another_project_says_what_there_is(tmp_path: Path) -> None:
    said = refused(copy_project("stock", tmp_path), "backfill", DATABASE_URL="sqlite:///x")
    assert said.startswith(
        "pipestate: name a backfill, as pipestate backfill orders/state; there is none: a backfill is"
    )


@pytest.mark.parametrize("command", ["reconcile", "queues show", "queues clear"])
def test_the_applications_commands_refuse_another_project(tmp_path: Path, command: str) -> None:
    directory = copy_project("stock", tmp_path)
    said = refused(directory, *command.split(), REDIS_URL="redis://127.0.0.1:1/0")
    assert "the pipeline that comes with pipestate, and alembic has other migrations" in said


def test_a_pyproject_and_a_directory_of_scripts(tmp_path: Path, sqlite_database: Database) -> None:
    version = "CREATE TABLE alembic_version (version_num varchar(32) NOT NULL)"
    sqlite_database.run(version, "INSERT INTO alembic_version VALUES ('p1')", "CREATE TABLE t_p1 (n integer)")
    shop = copy_project("pyproject", tmp_path)
    assert pipestate(shop, "verify", DATABASE_URL=sqlite_database.text).returncode == 0
    notes = copy_project("no_ini", tmp_path)
    sqlite_database.run("UPDATE alembic_version SET version_num = 'n1'", "CREATE TABLE t_n1 (n integer)")
    done = pipestate(notes, "verify", "--scripts", "app/migrations", DATABASE_URL=sqlite_database.text)
    assert done.returncode == 0, done.stderr


def test_sections_and_the_hints_that_repeat_them(tmp_path: Path) -> None:
    directory = copy_project("sections", tmp_path)
    (directory / "sales.sqlite").touch()
    said = pipestate(directory, "plan", "-n", "sales").stdout
    assert "Next: alembic -n sales upgrade sales1" in said
    url = f"sqlite:///{directory / 'sales.sqlite'}"
    done = pipestate(
        tmp_path, "status", "--config", "sections/alembic.ini", "--name", "sales", "--database-url", url
    )
    assert f"pipestate plan --config sections/alembic.ini --name sales --database-url {url}\n" in done.stdout


def test_a_closed_gate_repeats_alembics_options(tmp_path: Path) -> None:
    directory = copy_project("stock", tmp_path)
    url = f"sqlite:///{directory / 'app.sqlite'}"
    ini = directory / "alembic.ini"
    ini.write_text(ini.read_text().replace("[alembic]", "[orders]"))
    argv = ["alembic", "-c", "stock/alembic.ini", "-n", "orders", "upgrade"]
    assert run_program([*argv, "a1"], cwd=tmp_path, environment=os.environ).returncode == 0
    Database(make_url(url)).run(*["INSERT INTO t_a1 VALUES (1)"] * 4)
    done = run_program([*argv, "head"], cwd=tmp_path, environment=os.environ)
    assert done.returncode == 255
    hint = "pipestate verify orders --phase ready --config stock/alembic.ini --name orders"
    assert f"Next: {hint}\n" in done.stderr, done.stderr
    assert pipestate(tmp_path, *hint.split()[1:]).returncode == 1


def test_a_hint_never_shows_a_password(pg: Database, tmp_path: Path) -> None:
    role = f"owner_{pg.url.database}"
    pg.run(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")
    given = Database(pg.url.set(username=role, password=PASSWORD))
    try:
        done = pipestate(tmp_path, "plan", "--shipped", "--database-url", given.text)
        assert f"{role}:***@" in done.stdout
    finally:
        given.engine.dispose()
        pg.run(f"DROP ROLE {role}")


# --- Its version table -----------------------------------------------------------------------------


def test_a_version_table_of_its_own(tmp_path: Path, pg: Database) -> None:
    directory = copy_project("own_version_table", tmp_path)
    pg.run(
        "CREATE SCHEMA billing",
        "CREATE TABLE billing.billing_version (version_num varchar(32) NOT NULL)",
        "INSERT INTO billing.billing_version VALUES ('c1')",
    )
    plan = json.loads(pipestate(directory, "plan", "--json", DATABASE_URL=pg.text).stdout)
    assert (plan["revision"], plan["next"]) == ("c1", "alembic upgrade c2")


def test_several_candidates_are_named(tmp_path: Path, pg: Database) -> None:
    directory = copy_project("stock", tmp_path)
    for schema in ("one", "two"):
        pg.run(
            f"CREATE SCHEMA {schema}",
            f"CREATE TABLE {schema}.alembic_version (version_num varchar(32) NOT NULL)",
            f"INSERT INTO {schema}.alembic_version VALUES ('a1')",
        )
    said = refused(directory, "plan", DATABASE_URL=pg.text)
    assert (
        "one.alembic_version (a1), two.alembic_version (a1); name the right one with --version-table" in said
    )
    done = pipestate(directory, "status", "--version-table", "two.alembic_version", DATABASE_URL=pg.text)
    assert done.returncode == 0
