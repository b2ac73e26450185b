"""`pipestate downgrade` in somebody else's project, through its env.py."""

import json
from pathlib import Path

import pytest

from attacks.project import Project, lay_out
from support.servers import Database, Postgres
from support.shop_project import LOG, OLD, open_shop


@pytest.fixture
def project(pg: Database, tmp_path: Path) -> Project:
    made = lay_out("attacked", tmp_path / "project", pg)
    assert made.pipestate("ledger", "install").returncode == 0
    done = made.pipestate("upgrade")
    assert done.returncode == 0, done.stderr
    return made


def test_one_step_a_revision_and_base(project: Project) -> None:
    one = project.pipestate("downgrade", "-1")
    assert (one.returncode, one.stdout) == (0, "downgraded from d4 to c3: d4\n"), one.stderr
    reported = json.loads(project.pipestate("downgrade", "a1", "--json").stdout)
    assert reported == {"before": "c3", "after": "a1", "reverted": ["c3", "b2"]}
    again = project.pipestate("downgrade", "a1")
    assert (again.returncode, again.stdout) == (0, "at a1: nothing to downgrade\n")
    base = project.pipestate("downgrade", "base")
    assert base.stdout == "downgraded from a1 to base: a1\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [("zz", "Can't locate revision"), ("-9", "Relative revision -9"), ("--jsn", "--jsn is no option")],
)
def test_a_target_that_is_not_there(project: Project, given: str, said: str) -> None:
    done = project.pipestate("downgrade", given)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False)
    assert said in done.stderr


def test_the_database_that_was_named_or_none(project: Project, postgres: Postgres) -> None:
    other = postgres.create()
    try:
        project.write("settings.txt", other.url.render_as_string(hide_password=False))
        project.use_environment("settings_of_its_own")
        done = project.pipestate("downgrade", "a1", "--database-url", project.database.text)
        assert done.returncode == 2, done.stdout + done.stderr
        assert f"env.py would migrate postgresql://postgres:***@/{other.url.database}" in done.stderr
        assert project.database.rows("SELECT version_num FROM alembic_version") == [("d4",)]
    finally:
        postgres.drop(other)


def test_a_contract_restores(database: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path / "shop", database)
    shop.upgrade("b2")
    shop.fill()
    shop.approve()
    shop.upgrade()
    shop.assert_contracted()
    assert shop.pipestate("downgrade", "b2") == {"before": "d4", "after": "b2", "reverted": ["d4", "c3"]}
    assert (shop.orders(), shop.log()) == (OLD, LOG)
