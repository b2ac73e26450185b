"""Gates and contracts through each driver that a project may have."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection

from pipestate.gate import GateClosed
from pipestate.migration.failure import MigrationError
from pipestate.migration.postgresql.gate import require_gate_transaction
from support.alembic_runs import Migrations, config_for
from support.driver_connections import connected
from support.legacy_database import everything_legacy
from support.programs import run_program
from support.servers import Database, Postgres, Sqlite
from support.shop_project import LOG, OLD, Shop, open_shop

ENVIRONMENTS = {
    "postgresql+psycopg2": "per_migration",
    "postgresql+psycopg": "per_migration",
    "postgresql+psycopg_async": "asynchronous",
    "postgresql+asyncpg": "asynchronous",
    "sqlite+pysqlite": "per_migration",
    "sqlite+aiosqlite": "asynchronous",
}


@pytest.fixture(params=ENVIRONMENTS)
def shop(
    request: pytest.FixtureRequest, postgres: Postgres, sqlite: Sqlite, tmp_path: Path
) -> Iterator[Shop]:
    """A shop with rows at b2, whose env.py connects with the driver."""
    bed = sqlite if request.param.startswith("sqlite") else postgres
    database = bed.create()
    shop = open_shop(tmp_path, database, ENVIRONMENTS[request.param], driver=request.param)
    shop.upgrade("b2")
    shop.fill()
    yield shop
    bed.drop(database)


def test_a_contract_waits_goes_up_and_comes_back(shop: Shop) -> None:
    """The ini names the project's driver: `plan` takes its own."""
    assert shop.plan() == ("b2", "closed")
    with pytest.raises(GateClosed, match="approved: rows is 0, required >= 1"):
        shop.upgrade()
    shop.assert_untouched()
    assert shop.recorded() == []

    shop.approve()
    assert shop.plan() == ("b2", "open")
    shop.upgrade()
    shop.assert_contracted()
    assert shop.recorded() == [("gate", "open"), ("upgrade", None)]
    assert shop.database.value("SELECT count(*) FROM pipestate.result WHERE outcome = 'passed'") == 2

    shop.downgrade("b2")
    assert (shop.version(), shop.orders(), shop.log()) == ("b2", OLD, LOG)


@pytest.mark.parametrize("shop", ["postgresql+asyncpg", "sqlite+aiosqlite"], indirect=True)
def test_pipestate_upgrade_goes_through_an_asynchronous_env_py(shop: Shop) -> None:
    """The URL that is named has no driver, or ours; env.py gets its own."""
    argv = ["pipestate", "upgrade", "--database-url", shop.database.text]
    done = run_program(argv, cwd=shop.root, environment=os.environ)
    assert done.returncode == 1, done.stderr
    shop.assert_untouched()
    shop.approve()
    done = run_program(argv, cwd=shop.root, environment=os.environ)
    assert done.returncode == 0, done.stderr
    shop.assert_contracted()


def test_every_helper_works_through_asyncpg(pg_legacy: Migrations) -> None:
    """One statement a call, no parameters in the driver's own style: the shipped migrations use all of the helpers."""
    database = pg_legacy.database
    before = everything_legacy(database)

    def migrate(direction: str, revision: str) -> None:
        config = config_for(database.text, x=("force=a drill",))

        def work(connection: Connection) -> None:
            config.attributes["connection"] = connection
            getattr(command, direction)(config, revision)

        connected(database, "postgresql+asyncpg", work)

    migrate("upgrade", "head")
    assert pg_legacy.revision() == "0007"
    migrate("downgrade", "base")
    assert everything_legacy(database) == before


def test_a_backfill_in_a_revision_works_through_asyncpg(pg: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, pg, "asynchronous", driver="postgresql+asyncpg", name="backfilled")
    shop.upgrade("b2")
    pg.run("INSERT INTO orders SELECT n, n % 2, 0 FROM generate_series(1, 3000) AS n")
    shop.upgrade("c3")
    assert pg.value("SELECT count(*) FROM orders WHERE state IS NOT NULL AND times = 1") == 3000
    assert pg.rows("SELECT percent, rows_left FROM pipestate.backfill") == [(100, 0)]


@pytest.mark.parametrize("driver", [name for name in ENVIRONMENTS if name.startswith("postgresql")])
def test_a_gate_refuses_a_connection_that_it_cannot_evaluate_through(pg: Database, driver: str) -> None:
    for level, why in (
        ("AUTOCOMMIT", "commits every statement"),
        ("REPEATABLE READ", "needs READ COMMITTED"),
    ):
        with pytest.raises(MigrationError, match=why):
            connected(pg, driver, lambda each: require_gate_transaction(each, "c3"), isolation_level=level)
