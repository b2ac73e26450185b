"""A project of Flask-Migrate: `flask db upgrade`, an ini inside the script directory, no script_location."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.miniatures import PROJECTS, copy_project
from support.programs import run_program
from support.servers import Database
from support.shop_project import LOG, OLD, Shop


@pytest.fixture
def shop(pg: Database, tmp_path: Path) -> Shop:
    """The application of Flask with the revisions and the page of the shop."""
    root = copy_project("flask_shop", tmp_path)
    for name in ("migrations/versions", "runbooks"):
        shutil.copytree(PROJECTS / "shop" / name, root / "migrations" / Path(name).name)
    return Shop(root, pg, options=("--config", "migrations/alembic.ini", "--database-url", pg.text))


def flask(shop: Shop, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "SHOP_DATABASE": shop.database.url.render_as_string(hide_password=False)}
    return run_program(["flask", "db", *arguments], cwd=shop.root, environment=environment)


def test_flask_db_upgrade_waits_at_a_closed_gate(shop: Shop) -> None:
    assert flask(shop, "upgrade", "b2").returncode == 0
    shop.fill()
    assert shop.plan() == ("b2", "closed")
    done = flask(shop, "upgrade")
    assert done.returncode == 1
    assert "the gate shop/ready is closed" in done.stderr
    assert "Traceback" not in done.stderr
    shop.assert_untouched()

    shop.approve()
    assert shop.plan() == ("b2", "open")
    done = flask(shop, "upgrade")
    assert done.returncode == 0, done.stderr
    shop.assert_contracted()
    assert shop.recorded() == [("gate", "open"), ("upgrade", None)]
    assert flask(shop, "downgrade", "b2").returncode == 0
    assert (shop.version(), shop.orders(), shop.log()) == ("b2", OLD, LOG)


INI = """[alembic]
[loggers]
keys = root
[handlers]
keys = console
[formatters]
keys = generic
[logger_root]
level = WARN
handlers = console
[handler_console]
class = StreamHandler
args = (sys.stderr,)
formatter = generic
[formatter_generic]
format = %(levelname)s [%(name)s] %(message)s
"""


def test_an_ini_that_silences_flask_migrate_hides_no_closed_gate(shop: Shop) -> None:
    """Privacyidea's names other loggers than Flask-Migrate's, which ended with 1 and without a word."""
    (shop.root / "migrations" / "alembic.ini").write_text(INI)
    env = shop.root / "migrations" / "env.py"
    configured = "from logging.config import fileConfig\n\nfileConfig(context.config.config_file_name)\n"
    env.write_text(env.read_text().replace("guard(context)\n", f"guard(context)\n{configured}"))
    assert flask(shop, "upgrade", "b2").returncode == 0
    shop.fill()
    done = flask(shop, "upgrade")
    assert done.returncode == 1
    assert "the gate shop/ready is closed" in done.stderr
    shop.assert_untouched()


AUTOCOMMIT = '        connection = connection.execution_options(isolation_level="AUTOCOMMIT")\n'


def test_an_env_py_that_commits_every_statement_gets_a_transaction_from_the_guard(shop: Shop) -> None:
    """Privacyidea's and dagster's connect so."""
    env = shop.root / "migrations" / "env.py"
    begin = "    with get_engine().connect() as connection:\n"
    env.write_text(env.read_text().replace(begin, begin + AUTOCOMMIT))
    assert flask(shop, "upgrade", "b2").returncode == 0
    shop.fill()
    done = flask(shop, "upgrade")
    assert done.returncode == 1
    assert "the gate shop/ready is closed" in done.stderr
    shop.assert_untouched()
    shop.approve()
    done = flask(shop, "upgrade")
    assert done.returncode == 0, done.stderr
    shop.assert_contracted()


def test_every_command_that_is_advised_is_one_of_flask(shop: Shop) -> None:
    """Alembic alone cannot run this env.py, nor can `pipestate upgrade`."""
    assert flask(shop, "upgrade", "b2").returncode == 0
    shop.fill()
    shop.approve()
    plan = run_program(["pipestate", "plan", *shop.options], cwd=shop.root, environment=dict(os.environ))
    assert "flask db upgrade head" in plan.stdout
    upgrade = run_program(
        ["pipestate", "upgrade", *shop.options], cwd=shop.root, environment=dict(os.environ)
    )
    assert (upgrade.returncode, "Traceback" in upgrade.stderr) == (2, False)
    assert (
        "runs inside its Flask application (Working outside of application context.): flask db upgrade"
        in upgrade.stderr
    )
    assert flask(shop, "upgrade").returncode == 0
    (shop.root / "migrations" / "versions" / "e5.py").write_text(
        "from alembic import op\nrevision, down_revision = 'e5', 'd4'\ndef upgrade():\n    op.drop_table('orders')\n"
    )
    refused = flask(shop, "upgrade")
    assert refused.returncode == 1
    assert 'give a reason: flask db upgrade -x force="reason" …' in refused.stderr
