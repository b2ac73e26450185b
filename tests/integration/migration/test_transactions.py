"""Whose transaction a migration runs in: the gate commits nothing that is not its own, in any project's env.py."""

from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection

from pipestate.gate import GateClosed
from support.servers import ADVISORY_LOCKS_HERE, Database
from support.shop_project import LOG, OLD, Shop, open_shop

# By env.py: where a run from a1 to head stands when the gate of c3 is closed. Without a name it is the stock one.
KEPT = {
    None: "a1",
    "per_migration": "b2",
    "own_transaction": "a1",
    "lock_of_transaction": "a1",
    "lock_of_session": "b2",
    "own_version_table": "b2",
}
SAID = {
    "per_migration": "nothing of this revision was done, and the revisions before it stay",
    "own_transaction": "this run is part of a transaction that the caller began, and the caller ends it",
    None: "all of this run, which is one transaction, is rolled back",
}


@pytest.fixture(params=KEPT, ids=lambda name: name or "stock")
def environment(request: pytest.FixtureRequest) -> str | None:
    name: str | None = request.param
    return name


@pytest.fixture
def shop(pg: Database, environment: str | None, tmp_path: Path) -> Shop:
    """A shop with rows at a1, before the revision of the ledger."""
    shop = open_shop(tmp_path, pg, environment)
    if environment == "own_version_table":
        shop = Shop(shop.root, pg, "shop.shop_version")
    shop.upgrade("a1")
    shop.fill()
    return shop


def test_a_run(shop: Shop, environment: str | None) -> None:
    kept = KEPT[environment]
    with pytest.raises(GateClosed) as closed:
        shop.upgrade()
    shop.assert_untouched(kept)
    assert ("pipestate.run" in shop.tables()) is (kept == "b2")
    assert shop.plan() == (kept, "closed" if kept == "b2" else "ahead")
    if environment in SAID:
        assert SAID[environment] in str(closed.value)

    shop.approve()
    shop.upgrade()
    shop.assert_contracted()
    assert shop.recorded() == [("gate", "open"), ("upgrade", None)]
    assert shop.plan()[0] == "d4"
    if environment in ("lock_of_transaction", "lock_of_session"):
        held = shop.database.rows("SELECT what FROM approvals WHERE what LIKE 'locked at %' ORDER BY what")
        assert ("locked at c3",) in held, "the gate has given the lock of env.py back"

    shop.downgrade("b2")
    assert (shop.version(), shop.orders(), shop.log()) == ("b2", OLD, LOG)
    assert not shop.database.rows(ADVISORY_LOCKS_HERE)


def upgrade_through(shop: Shop, connection: Connection, revision: str = "head") -> None:
    config = shop.config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def test_a_connection_that_the_caller_hands_over_in_a_transaction(pg: Database, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, pg, "callers_connection")
    with pg.begin() as connection:
        upgrade_through(shop, connection, "a1")
    shop.fill()

    with pg.engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO approvals VALUES ('by the caller')")
        with pytest.raises(GateClosed, match=r"a transaction that the caller began, and the caller ends it"):
            upgrade_through(shop, connection)
        assert connection.exec_driver_sql("SELECT what FROM approvals").scalar() == "by the caller"
        connection.rollback()
    shop.assert_untouched("a1")
    assert shop.plan() == ("a1", "ahead")
    assert pg.value("SELECT count(*) FROM approvals") == 0

    shop.approve()
    with pg.engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO approvals VALUES ('by the caller')")
        upgrade_through(shop, connection)
        assert (shop.version(), pg.value("SELECT count(*) FROM approvals")) == ("a1", 1), (
            "nothing is committed"
        )
        connection.commit()
    shop.assert_contracted()
    assert pg.value("SELECT count(*) FROM approvals") == 2


def test_a_connection_that_the_caller_hands_over_outside_of_a_transaction(
    pg: Database, tmp_path: Path
) -> None:
    """Then Alembic begins one for the run, and ends it."""
    shop = open_shop(tmp_path, pg, "callers_connection")
    with pg.engine.connect() as connection:
        upgrade_through(shop, connection, "a1")
        shop.fill()
        with pytest.raises(GateClosed, match="all of this run, which is one transaction, is rolled back"):
            upgrade_through(shop, connection)
        assert not connection.in_transaction()
        shop.assert_untouched("a1")
        shop.approve()
        upgrade_through(shop, connection)
        assert not connection.in_transaction()
    shop.assert_contracted()


def test_on_sqlite_the_revisions_before_a_closed_gate_stay(sqlite_database: Database, tmp_path: Path) -> None:
    """There Alembic does not hold several revisions in one transaction, whatever env.py says."""
    shop = open_shop(tmp_path, sqlite_database)
    shop.upgrade("a1")
    shop.fill()
    with pytest.raises(GateClosed, match="the revisions before it stay"):
        shop.upgrade()
    shop.assert_untouched("b2")
    shop.approve()
    shop.upgrade()
    shop.assert_contracted()
