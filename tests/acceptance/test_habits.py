"""Habits of public projects, in miniature: branches in directories of their own, own programs, odd locations."""

import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from attacks import attacked, orders
from attacks.attacked import Done
from attacks.project import Project, lay_out, point_at
from support.miniatures import PROJECTS, copy_project
from support.programs import run_program
from support.servers import Database, Postgres
from support.shop_project import Shop


def must(done: Done, code: int = 0) -> str:
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == code, said
    assert "Traceback" not in said
    return said


@pytest.fixture
def branches(pg: Database, tmp_path: Path) -> Project:
    """Keystone's and neutron's migrations: `expand` and `contract`, labels from a module, several directories."""
    return lay_out("expand_contract", tmp_path / "project", pg)


def test_two_branches_in_directories_of_their_own(branches: Project) -> None:
    drop = ("--drop-column", "orders.old_status", "--rev-id", "c2", "-m", "one status")
    said = must(branches.pipestate("revision", "--contract", "orders/readiness", *drop), 2)
    assert "the project has 2 heads, c1, e1: say with --head which one the new revision follows" in said
    must(branches.pipestate("revision", "--contract", "orders/readiness", "--head", "contract", *drop))
    assert (branches.root / "shopdb/migrations/versions/yoga/contract/c2_one_status.py").is_file()
    must(branches.pipestate("runbook", "lint"))

    must(branches.pipestate("upgrade", "expand@head"))
    assert branches.database.rows("SELECT version_num FROM alembic_version") == [("e1",)]
    branches.database.run("INSERT INTO orders (id, old_status) VALUES (1, 'paid')")
    assert "Open: orders/expand" in must(branches.pipestate("verify", "--phase", "expand"))
    must(branches.pipestate("upgrade", "c1"))
    said = must(branches.pipestate("upgrade"), 1)
    assert "the gate orders/readiness is closed" in said
    branches.database.run("UPDATE orders SET status = old_status")
    must(branches.alembic("upgrade", "contract@head"))
    must(branches.pipestate("plan"))
    assert "old_status" not in str(branches.database.rows("SELECT to_jsonb(o) FROM orders o"))
    must(branches.alembic("downgrade", "contract@c1"))
    assert branches.database.rows("SELECT id, old_status, status FROM orders") == [(1, "paid", "paid")]


def test_revisions_that_only_code_names_are_said(branches: Project) -> None:
    """Both projects set `version_locations` in their own programs, and have none in the ini."""
    ini = branches.read("alembic.ini").splitlines(keepends=True)
    text = "".join(line for line in ini if not line.startswith("version_locations"))
    branches.write("alembic.ini", text)
    contract = ("revision", "--contract", "orders/readiness", "--head", "contract", "--drop-table", "orders")
    said = must(branches.pipestate(*contract, "--dry-run"), 2)
    assert "--head contract is not one head of this project; there are r0; " in said
    assert (
        "shopdb/migrations/versions/yoga/contract is not read: name it in version_locations of alembic.ini"
        in said
    )
    branches.write(
        "alembic.ini", text.replace("[alembic]\n", "[alembic]\nrecursive_version_locations = true\n")
    )
    said = must(branches.pipestate(*contract, "--dry-run"))
    assert "Revises: c1" in said


def test_a_location_of_several_colons_within_its_own_package(tmp_path: Path) -> None:
    """As prefect: the ini lies in the package that it names, which is not installed here."""
    copy_project("stock", tmp_path)
    package = tmp_path / "site" / "acme" / "server" / "database"
    package.mkdir(parents=True)
    shutil.copytree(tmp_path / "stock" / "alembic", package / "_migrations")
    (package / "alembic.ini").write_text("[alembic]\nscript_location = acme:server:database:_migrations\n")
    argv = ["pipestate", "init", "orders", "--dry-run", "--config", "alembic.ini"]
    done = run_program(argv, cwd=package, environment=os.environ)
    assert "would write _migrations/versions/" in must(done)
    assert "Revises: b2" in done.stdout


@pytest.fixture
def own_steps(pg: Database, tmp_path: Path) -> Shop:
    return lay_out_own_steps(pg, tmp_path)


def lay_out_own_steps(database: Database, tmp_path: Path) -> Shop:
    """The shop, whose application runs its revisions without Alembic's command line, as buildbot does."""
    root = copy_project("own_steps", tmp_path)
    for name in ("migrations/versions", "runbooks"):
        shutil.copytree(PROJECTS / "shop" / name, root / "migrations" / Path(name).name)
    contract = root / "migrations" / "versions" / "c3_no_log.py"
    contract.write_text(contract.read_text().replace('"shop/ready", ', '"shop/ready", revision=revision, '))
    return Shop(root, database)


def run_own_steps(shop: Shop, target: str, *options: str) -> Done:
    url = shop.database.url.render_as_string(hide_password=False)
    with attacked.running("upgrade.py", url, target, *options, cwd=shop.root) as process:
        return attacked.finish(process)


def test_an_application_that_runs_revisions_itself(own_steps: Shop) -> None:
    upgrade = partial(run_own_steps, own_steps)
    assert upgrade("b2").returncode == 0
    own_steps.fill()
    done = upgrade("head")
    assert done.returncode == 1
    assert "so no runbook is found: give it to MigrationContext.configure" in done.stderr
    assert "AssertionError" not in done.stderr
    done = upgrade("head", "--script")
    assert "the gate shop/ready is closed" in done.stderr
    own_steps.assert_untouched()
    own_steps.approve()
    done = upgrade("head", "--script")
    assert done.returncode == 0, done.stderr
    own_steps.assert_contracted()


@pytest.mark.parametrize("options", [(), ("--environment",), ("--environment", "--guard")])
def test_an_application_that_reverts_revisions_itself(
    database: Database, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """As zenml: no env.py and no command of Alembic says that this is a downgrade; Alembic's step does."""
    shop = lay_out_own_steps(database, tmp_path)
    must(run_own_steps(shop, "b2", *options))
    must(run_own_steps(shop, "base", "--down", *options))
    assert shop.version() is None
    assert shop.tables() == {"alembic_version"}


def test_the_guard_of_an_application_without_env_py(database: Database, tmp_path: Path) -> None:
    """As zenml's own class: the guard takes its EnvironmentContext, and names it where `alembic.context` is empty."""
    shop = lay_out_own_steps(database, tmp_path)
    must(run_own_steps(shop, "b2", "--environment", "--guard"))
    shop.fill()
    shutil.rmtree(shop.root / "migrations" / "runbooks")
    shop.root.joinpath("migrations/versions/c3_no_log.py").write_text(
        "from alembic import op\n\nrevision, down_revision = 'c3', 'b2'\n\n\n"
        "def upgrade():\n    op.drop_table('order_log')\n"
    )
    done = run_own_steps(shop, "head", "--environment", "--guard")
    assert "the upgrade of revision c3 loses the table order_log" in done.stderr
    shop.root.joinpath("outside.py").write_text(
        "from alembic import context\nfrom pipestate.environment import guard\n\nguard(context)\n"
    )
    with attacked.running("outside.py", cwd=shop.root) as process:
        done = attacked.finish(process)
    assert "a program calls guard(environment) with its EnvironmentContext" in done.stderr


FILTERED = """
from alembic import context
from pipestate.environment import HOW
from sqlalchemy import Column, Integer, MetaData, Table, create_engine

metadata = MetaData()
Table("orders", metadata, Column("id", Integer, primary_key=True))


def include_object(object, name, type_, *arguments, **named):
    return not (type_ == "table" and name == "sqlite_sequence")


USE
with create_engine(context.config.get_main_option("sqlalchemy.url")).connect() as connection:
    context.configure(
        connection=connection, target_metadata=metadata, include_object=include_object, render_as_batch=True, MORE
    )
    with context.begin_transaction():
        context.run_migrations()
"""


@pytest.mark.parametrize(
    ("name", "use", "more"),
    [("guard", "guard(context)", ""), ("include_name", "", "include_name=include_name")],
)
def test_an_include_object_of_its_own_leaves_the_ledger_alone(
    database: Database, tmp_path: Path, name: str, use: str, more: str
) -> None:
    """As zenml: `alembic check` sees neither the ledger's tables nor an archive."""
    project = Project(tmp_path, database)
    must(attacked.run("alembic", "init", "alembic", cwd=tmp_path))
    point_at(tmp_path, database)
    env = FILTERED.replace("HOW", name).replace("USE", use).replace("MORE", more)
    project.write("alembic/env.py", env)
    must(project.alembic("revision", "--autogenerate", "--rev-id", "a1", "-m", "orders"))
    must(project.pipestate("init", "orders", "--rev-id", "a2"))
    must(project.alembic("upgrade", "head"))
    must(project.alembic("check"))


def test_files_in_a_directory_of_their_year(tmp_path: Path) -> None:
    """As dstack: a template with a slash, read recursively, in a zone that is written in small letters."""
    root = copy_project("stock", tmp_path)
    lines = (
        "recursive_version_locations = true\ntimezone = utc\n"
        "file_template = %%(year)d/%%(month).2d_%%(rev)s_%%(slug)s\n"
    )
    ini = root / "alembic.ini"
    ini.write_text(ini.read_text().replace("[alembic]\n", f"[alembic]\n{lines}"))
    for name in ("orders2", "orders3"):
        argv = ["pipestate", "init", name, "--rev-id", f"{name}_ledger"]
        must(run_program(argv, cwd=root, environment=os.environ))
    (ledger,) = root.glob("alembic/versions/*/*_ledger.py")
    assert "Revises: b2" in ledger.read_text()
    argv = ["pipestate", "revision", "--contract", "orders2/readiness", "--drop-table", "t_a1"]
    said = must(run_program(argv, cwd=root, environment=os.environ))
    assert "readiness guards" in said


FROM_CODE = """
from alembic import command
from alembic.config import Config

command.upgrade(Config("alembic.ini"), "head")
"""
# What stops it, and the last line of the traceback that the application shows.
STOPS = {
    "a closed gate": ("SELECT 1", "the gate orders/ready is closed"),
    "no ledger": ("DROP SCHEMA pipestate CASCADE", "run `pipestate ledger install`"),
    "altered functions": (
        "CREATE OR REPLACE FUNCTION pipestate.runtime() RETURNS integer LANGUAGE sql AS 'SELECT 1 + 0'",
        "functions of the ledger were altered",
    ),
    "a loss": ("DELETE FROM old_orders", "loses the rows of new_orders"),
}


STOPPED = [(stop, environment) for stop in STOPS for environment in ("stock", "guarded")]
STOPPED.remove(("a loss", "stock"))


@pytest.mark.parametrize(("stop", "environment"), STOPPED)
def test_an_application_that_calls_alembic_from_code_shows_one_traceback(
    postgres: Postgres, tmp_path: Path, stop: str, environment: str
) -> None:
    """As optuna, jupyterhub, mailman, ckan and zenml: it ends in the sentence, without a chain of causes."""
    database = postgres.copy_of("attacked", lambda fresh: orders.fill(fresh, tmp_path / "template"))
    project = lay_out("attacked", tmp_path / "project", database)
    statement, said = STOPS[stop]
    database.run(statement)
    if environment == "guarded":
        project.use_environment("guarded")
    if stop == "a loss":
        database.run("INSERT INTO new_orders (id) VALUES (1)")
        later = "migrations/versions/d4_after_orders.py"
        head = "def upgrade() -> None:\n"
        project.edit(later, (head, f'{head}    op.execute("TRUNCATE new_orders")\n'))
    project.write("application.py", FROM_CODE)
    with project.running("application.py") as process:
        done = attacked.finish(process)
    postgres.drop(database)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1, done.stderr
    assert "During handling" not in done.stderr
    assert "direct cause" not in done.stderr
    assert said in done.stderr.rpartition("Traceback")[2]
