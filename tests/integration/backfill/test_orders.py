"""Orders to a backfill that runs, from another terminal; and a vacuum that it waits for."""

import re
import threading
import time

import pytest

from pipestate.backfill import loop, recorded
from pipestate.backfill.recorded import order
from pipestate.core.errors import ConfigError
from pipestate.database.interrupt import Interrupted
from support.backfills import Orders, at, find
from support.servers import Database, Postgres


def give(orders: Orders, **given: object) -> None:
    with orders.database.begin() as connection:
        order(connection, find(orders.directory, orders.dialect), **given)  # type: ignore[arg-type]


def test_a_run_pauses_behind_its_batch_and_goes_on(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "ORDERS_PAUSE_S", 0.01)
    monkeypatch.setenv("PIPESTATE_ACTOR", "ann")
    orders.make(50)
    reported: list[tuple[str, object]] = []

    def resume(sentence: str) -> None:
        reported.append((sentence, orders.view("rows_updated", "paused_by", "paused_at IS NULL")))
        give(orders, paused=False)

    done = orders.run(size=10, on_progress=at(2, lambda: give(orders, paused=True)), on_wait=resume)
    sentence = "paused by ann; to continue: pipestate backfill orders/state --resume"
    assert (reported, done.rows_updated) == ([(sentence, (20, "ann", False))], 50)
    assert orders.times() == {1: 50}


def test_a_paused_run_that_was_killed_stays_paused(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "ORDERS_PAUSE_S", 0.01)
    orders.make(50)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        orders.run(size=10, on_progress=at(2, lambda: give(orders, paused=True)), on_wait=die)
    with pytest.raises(Interrupted):
        orders.run(size=10, on_wait=die)
    assert orders.times() == {0: 30, 1: 20}
    give(orders, paused=False)
    assert orders.run(size=10).rows_updated == 30


def test_batches_of_another_size(orders: Orders) -> None:
    """20 rows in batches of 10, the next in batches of 5; then as before."""
    orders.make(60)
    seen: list[int] = []

    def tell(done: int, _total: int) -> None:
        seen.append(done)
        if done == 20:
            give(orders, batch_rows=5)
        if done == 30:
            give(orders, batch_rows=0)

    orders.run(size=10, on_progress=tell)
    assert seen == [10, 20, 25, 30, 40, 50, 60]


def test_without_a_run_there_is_nothing_to_order(orders: Orders) -> None:
    orders.make(5)
    with pytest.raises(
        ConfigError, match=r"orders/state has no unfinished run to control: pipestate backfill"
    ):
        give(orders, paused=True)
    orders.run()
    with pytest.raises(ConfigError, match="no unfinished run"):
        give(orders, batch_rows=5)


INSERT = (
    "INSERT INTO lines (order_id) SELECT o.id FROM orders o WHERE o.id BETWEEN :first AND :last "
    "AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id)"
)


def test_an_insert_goes_in_batches_and_on_after_a_kill(orders: Orders) -> None:
    orders.make(50)
    orders.database.run("CREATE TABLE lines (order_id integer PRIMARY KEY)", "INSERT INTO lines VALUES (7)")

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        orders.run(INSERT, size=10, on_progress=at(2, die))
    assert orders.database.value("SELECT count(*) FROM lines") == 20
    done = orders.run(INSERT, size=10)
    assert (done.resumed_after, done.rows_updated, done.rows_left) == ("20", 30, 0)
    assert orders.database.value("SELECT count(*) FROM lines") == 50


def test_an_insert_that_nothing_tells_from_done_is_refused(orders: Orders) -> None:
    """ON CONFLICT alone inserts nothing twice, and every row matches for ever."""
    orders.make(50)
    orders.database.run("CREATE TABLE lines (order_id integer PRIMARY KEY)")
    endless = (
        "INSERT INTO lines (order_id) SELECT id FROM orders WHERE id BETWEEN :first AND :last AND times = 0 "
        "ON CONFLICT DO NOTHING"
    )
    with pytest.raises(
        ConfigError, match="still match its WHERE, so the backfill would never end; nothing was changed"
    ):
        orders.run(endless, size=10)
    assert orders.database.value("SELECT count(*) FROM lines") == 0


BURN = "DO $$ BEGIN FOR i IN 1..110000 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$"
VACUUM = "FROM pg_stat_activity WHERE query LIKE 'autovacuum: %orders (to prevent wraparound)'"
END = f"SELECT pg_terminate_backend(pid) {VACUUM}"


@pytest.mark.scene
def test_it_waits_for_a_vacuum_that_prevents_wraparound(
    postgres: Postgres, pg_orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one: the table's age passes its limit, and the vacuum is slowed down so that it lasts."""
    monkeypatch.setattr(loop, "LONGEST_PAUSE_S", 0.05)
    admin = Database(postgres.admin)
    pg_orders.make(20_000)
    slow = "autovacuum_freeze_max_age = 100000, autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1"
    pg_orders.database.run(f"ALTER TABLE orders SET ({slow})")
    run_alone(admin, "ALTER SYSTEM SET autovacuum_naptime = '1s'")
    try:
        run_alone(admin, "SELECT pg_reload_conf()")
        run_alone(pg_orders.database, "SET synchronous_commit = off", BURN)
        wait_for_vacuum(admin)
        said: list[str] = []
        slowly = threading.Thread(target=lambda: pg_orders.run(on_wait=said.append))
        slowly.start()
        time.sleep(0.5)
        updated = pg_orders.times()
        run_alone(pg_orders.database, END, "ALTER TABLE orders RESET (autovacuum_freeze_max_age)")
        slowly.join(timeout=60)
        assert (updated, pg_orders.times()) == ({0: 20_000}, {1: 20_000})
        (sentence,) = said
        assert re.fullmatch(
            r"waiting for autovacuum: VACUUM.* public.orders \(to prevent wraparound\)", sentence
        )
    finally:
        run_alone(admin, "ALTER SYSTEM RESET autovacuum_naptime", "SELECT pg_reload_conf()")


def run_alone(database: Database, *statements: str) -> None:
    with database.engine.connect() as plain:
        connection = plain.execution_options(isolation_level="AUTOCOMMIT")
        for statement in statements:
            connection.exec_driver_sql(statement, execution_options={"no_parameters": True})


def wait_for_vacuum(admin: Database) -> None:
    for _ in range(300):
        if admin.value(f"SELECT count(*) {VACUUM}"):
            return
        time.sleep(0.1)
    raise AssertionError("no vacuum came")


def test_the_loop_looks_before_each_batch(orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.make(30)
    pauses: list[int] = []
    monkeypatch.setattr(loop.BatchLoop, "wait_for_vacuum", lambda _: pauses.append(1))
    assert orders.run(size=10).batches + 1 == len(pauses)
