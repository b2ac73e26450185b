"""A project of Flask-Migrate: `flask db upgrade`, an ini inside the script directory, no script_location."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bed import Database
from miniatures import PROJECTS, copy_project
from programs import run_program
from shops import LOG, OLD, Shop


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
