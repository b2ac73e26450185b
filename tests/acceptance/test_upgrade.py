"""`pipestate upgrade` in somebody else's project: up to the closed gate, whatever its transactions are."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from attacks.attacked import install_ledger
from attacks.orders import APPROVAL, ORDERS
from attacks.project import Project, lay_out
from support.servers import Database, Postgres

ENVIRONMENTS = ["stock", "per_migration", "own_transaction", "guarded", "advisory_lock"]


@pytest.fixture
def project(pg: Database, tmp_path: Path) -> Project:
    """Lay out a project whose database has nothing but the ledger, which its gate needs."""
    laid_out = lay_out("attacked", tmp_path / "project", pg)
    install_ledger(pg, laid_out.root)
    return laid_out


@pytest.fixture
def other(postgres: Postgres) -> Iterator[Database]:
    made = postgres.create()
    yield made
    postgres.drop(made)


def version(database: Database) -> str:
    return " ".join(sorted(str(row[0]) for row in database.rows("SELECT version_num FROM alembic_version")))


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_up_to_the_closed_gate_and_then_on(project: Project, environment: str) -> None:
    if environment != "stock":
        project.use_environment(environment)
    first = project.pipestate("upgrade", "--json")
    # Nothing is in the table yet, so its gate lets it go: fill it before the gate is met.
    assert json.loads(first.stdout)["after"] == "d4", first.stderr
    done = project.alembic("downgrade", "b2")
    assert done.returncode == 0, done.stdout + done.stderr
    project.database.run(ORDERS)
    closed = project.pipestate("upgrade")
    assert closed.returncode == 1, closed.stderr
    assert closed.stdout == "at b2: nothing was applied\n"
    assert "c3 waits: the gate orders/ready is closed" in closed.stderr
    assert "approved" in closed.stderr
    stopped = project.pipestate("upgrade", "--hold")
    assert (stopped.returncode, version(project.database)) == (1, "b2")
    assert "c3 waits" in stopped.stdout
    assert "left pending: c3, d4\n" in stopped.stdout
    assert "d4 have no gate, but follow a revision" in stopped.stderr
    assert stopped.stderr.endswith("what closes the gates: pipestate gate orders/ready\n")
    only_gated = project.pipestate("upgrade", "c3", "--hold")
    assert (only_gated.returncode, "have no gate, but follow" in only_gated.stderr) == (0, False)
    assert only_gated.stdout.endswith("left pending: c3\n")
    project.database.run(APPROVAL)
    opened = project.pipestate("upgrade")
    assert (opened.returncode, version(project.database)) == (0, "d4")
    assert opened.stdout == "upgraded from b2 to d4: c3, d4\n"
    again = project.pipestate("upgrade", "head")
    assert (again.returncode, again.stdout) == (0, "at d4: nothing to apply\n")


def test_what_came_before_the_gate_stays_where_one_transaction_holds_a_run(project: Project) -> None:
    """From base in one go: Alembic alone would take a1 and b2 back with the closed gate."""
    project.edit(
        "migrations/versions/b2_new_orders.py",
        (
            'op.execute("CREATE TABLE new_orders (id int PRIMARY KEY)")',
            'op.execute("CREATE TABLE new_orders (id int PRIMARY KEY)")\n'
            "    op.execute(\"INSERT INTO old_orders VALUES (1, '2020-01-01', 'x')\")",
        ),
    )
    project.use_environment("own_transaction")
    assert project.alembic("upgrade", "head").returncode != 0
    assert project.database.rows("SELECT to_regclass('old_orders')") == [(None,)]
    done = project.pipestate("upgrade", "--hold", "--json")
    assert done.returncode == 1, done.stderr
    reported = json.loads(done.stdout)
    assert (reported["before"], reported["after"], reported["applied"]) == (None, "b2", ["a1", "b2"])
    assert [(each["revision"], each["gate"]) for each in reported["waiting"]] == [("c3", "orders/ready")]
    assert reported["held"] == [{"revision": "c3", "gated": True}, {"revision": "d4", "gated": False}]
    assert version(project.database) == "b2"


def test_later_revisions_go_on_while_a_contract_waits_on_its_branch(pg: Database, tmp_path: Path) -> None:
    project = lay_out("contract_branch", tmp_path / "project", pg)
    assert project.pipestate("upgrade", "b2").returncode == 0
    assert project.pipestate("ledger", "install").returncode == 0
    pg.run(ORDERS)
    stopped = project.pipestate("upgrade", "--hold")
    assert (stopped.returncode, version(pg)) == (0, "d4"), stopped.stderr
    plan = json.loads(project.pipestate("plan", "--json").stdout)
    assert plan["head"] == "c3 d4"
    assert [step["revision"] for step in plan["steps"] if not step["applied"]] == ["c3"]
    assert plan["next"] == "c3 waits for orders/ready: pipestate gate orders/ready"
    pg.run(APPROVAL)
    assert json.loads(project.pipestate("plan", "--json").stdout)["next"] == "pipestate upgrade"
    assert project.pipestate("upgrade", "contract").returncode == 0
    assert version(pg) == "c3 d4"
    assert (
        json.loads(project.pipestate("plan", "--json").stdout)["next"] == "nothing: the database is at head"
    )


@pytest.mark.parametrize("command", [("upgrade",), ("verify", "--apply-migration")])
def test_the_database_that_was_named_or_none(
    project: Project, other: Database, command: tuple[str, ...]
) -> None:
    """An env.py with settings of its own ignores what it is told."""
    project.write("settings.txt", other.url.render_as_string(hide_password=False))
    project.use_environment("settings_of_its_own")
    done = project.pipestate(*command, "--database-url", project.database.text)
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"env.py would migrate postgresql://postgres:***@/{other.url.database}" in done.stderr
    for database in (project.database, other):
        assert database.rows("SELECT to_regclass('alembic_version')") == [(None,)]
    install_ledger(other, project.root)
    named = project.pipestate(*command, "--database-url", other.text)
    assert version(other) == ("d4" if command == ("upgrade",) else "b2"), named.stderr


def test_a_file_that_is_not_there_yet(tmp_path: Path, pg: Database) -> None:
    project = lay_out("attacked", tmp_path / "project", pg)
    project.edit(
        "runbooks/orders.md",
        ("-- dialect: postgresql\n-- require: recent = 0\n", "-- require: recent = 0\n"),
        (" WHERE written_at > now() - interval '24 hours'", " WHERE written_at > '3000-01-01'"),
    )
    url = f"sqlite:///{tmp_path}/orders.db"
    done = project.pipestate("upgrade", "--database-url", url)
    assert (done.returncode, done.stdout) == (0, "upgraded from base to d4: a1, b2, c3, d4\n"), done.stderr


def test_a_target_that_is_not_there(project: Project) -> None:
    done = project.pipestate("upgrade", "zz")
    assert (done.returncode, done.stdout) == (2, "")
    assert "zz: no revision and no branch of this project" in done.stderr
