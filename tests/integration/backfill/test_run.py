"""A backfill runs to its end, goes on where it was stopped, and says what it could not do. On both engines."""

from pathlib import Path
from typing import NoReturn

import pytest

from pipestate.backfill import postgresql
from pipestate.backfill.forecast import forecast
from pipestate.core.errors import ConfigError, Unreachable
from pipestate.database import connections as db
from pipestate.database.interrupt import Interrupted
from support.backfills import FILL, Orders, at, find
from support.servers import Database


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


def test_every_row_is_updated_once_and_the_ledger_says_so(orders: Orders) -> None:
    orders.make(25)
    done = orders.run(size=10)
    assert (done.rows_updated, done.rows_left, done.batches, done.exit_code) == (25, 0, 3, 0)
    assert orders.times() == {1: 25}
    columns = ("runbook", "id", "table_name", "first_key", "last_key", "rows_updated", "rows_left", "batches")
    assert orders.view(*columns) == ("orders", "state", "orders", "1", "25", 25, 0, 3)
    assert orders.view("percent", "finished_at IS NOT NULL", "started_at <= updated_at") == (100, True, True)


def test_twice_is_as_good_as_once(orders: Orders) -> None:
    orders.make(25)
    orders.run()
    again = orders.run()
    assert (again.rows_updated, again.batches, again.exit_code) == (0, 0, 0)
    assert orders.times() == {1: 25}
    orders.add(26, 27)
    assert orders.run().rows_updated == 2
    assert orders.times() == {1: 27}


@pytest.mark.parametrize("rows", [0, 1])
def test_an_empty_table_and_one_row(orders: Orders, rows: int) -> None:
    orders.make(rows)
    assert orders.run().rows_updated == rows
    assert orders.run().batches == 0
    assert orders.view("percent", "rows_left") == (100, 0)
    assert orders.database.value("SELECT count(*) FROM pipestate.backfill_progress") == 1, "none for nothing"


def test_it_goes_on_where_it_was_stopped(orders: Orders) -> None:
    orders.make(50)
    with pytest.raises(
        Interrupted, match="20 rows of orders updated in 2 batches, up to id 20; the same command"
    ):
        orders.run(size=10, on_progress=at(2, interrupt))
    assert orders.view("last_key", "batches", "percent < 100", "finished_at") == ("20", 2, True, None)
    done = orders.run(size=10)
    assert (done.resumed_after, done.rows_updated, done.batches) == ("20", 30, 3)
    assert orders.times() == {1: 50}
    assert orders.view("batches", "rows_updated", "first_key") == (5, 50, "1")


def test_another_statement_is_another_work(orders: Orders) -> None:
    orders.make(50)
    with pytest.raises(Interrupted):
        orders.run(size=10, on_progress=at(2, interrupt))
    done = orders.run(FILL.replace("'new'", "'other'"))
    assert (done.resumed_after, done.rows_updated) == (None, 30)


def test_an_update_whose_rows_match_again_is_refused_and_nothing_is_changed(orders: Orders) -> None:
    orders.make(25)
    endless = "UPDATE orders SET times = times + 1 WHERE id BETWEEN :first AND :last AND times >= 0"
    with pytest.raises(
        ConfigError, match=r"the 10 rows that it updated between 1 and 10 still match .* never end"
    ):
        orders.run(endless, size=10)
    assert orders.times() == {0: 25}
    assert orders.database.value("SELECT count(*) FROM pipestate.backfill_progress") == 0


def test_rows_that_the_update_does_not_change_are_left_and_said(orders: Orders) -> None:
    orders.make(25)
    orders.database.run("UPDATE orders SET old = 'x' WHERE id <> 7")
    copy = (
        "UPDATE orders SET state = old, times = times + 1 WHERE id BETWEEN :first AND :last AND state IS NULL"
    )
    done = orders.run(copy, size=10)
    assert (done.rows_left, done.exit_code) == (1, 1)
    assert orders.view("rows_left", "percent < 100", "finished_at") == (1, True, None)
    orders.database.run("UPDATE orders SET old = 'x'")
    assert orders.run(copy).exit_code == 0
    assert orders.view("rows_left", "percent") == (0, 100)


def test_what_writers_put_behind_the_walk_is_found(orders: Orders) -> None:
    orders.make(0)
    orders.add(100, 150)
    done = orders.run(size=20, on_progress=at(2, lambda: orders.add(1, 5)))
    assert (done.rows_updated, done.rows_left) == (56, 0)
    assert orders.times() == {1: 56}


def test_a_row_of_the_ledger_that_another_run_moved_stops_this_one(orders: Orders) -> None:
    orders.make(50)
    other = "UPDATE pipestate.backfill_progress SET batches = batches + 1, last_key = '40'"
    with pytest.raises(Unreachable, match="another run of orders/state is working on this database"):
        orders.run(size=10, on_progress=at(2, lambda: orders.database.run(other)))
    assert orders.times() == {0: 30, 1: 20}


DUPLICATES = (
    "UPDATE orders AS o SET times = o.times + 1 FROM names n "
    "WHERE n.order_id = o.id AND o.id BETWEEN :first AND :last AND o.times >= 0"
)


def with_duplicates(orders: Orders) -> None:
    """Make ten orders for each of three ids, and two names for each id."""
    orders.make(0, key="integer NOT NULL")
    orders.database.run(
        "CREATE INDEX by_id ON orders (id)",
        *(f"INSERT INTO orders (id) VALUES ({number % 3})" for number in range(30)),
        "CREATE TABLE names (order_id integer, name text)",
        *(f"INSERT INTO names VALUES ({number % 3}, 'a')" for number in range(6)),
    )


def test_rows_that_match_again_through_a_join_by_a_key_that_repeats_are_refused(orders: Orders) -> None:
    """Counted by their keys, three were left of thirty, and each run went over all of them twice."""
    with_duplicates(orders)
    with pytest.raises(ConfigError, match=r"the 10 rows that it updated between 0 and 0 still match"):
        orders.run(DUPLICATES, size=10)
    assert orders.times() == {0: 30}
    assert orders.database.value("SELECT count(*) FROM pipestate.backfill_progress") == 0


def test_rows_and_not_keys_are_left(orders: Orders) -> None:
    with_duplicates(orders)
    orders.database.run("UPDATE orders SET old = 'x' WHERE id <> 1")
    copy = DUPLICATES.replace("o.times >= 0", "o.state IS NULL").replace("SET", "SET state = o.old,")
    done = orders.run(copy, size=10)
    assert (done.rows_left, done.exit_code) == (10, 1)


def test_a_join_and_an_alias(orders: Orders) -> None:
    orders.make(30)
    orders.database.run(
        "CREATE TABLE names (order_id integer, name text)",
        "INSERT INTO names SELECT id, 'a' FROM orders",
        "INSERT INTO names SELECT id, 'a' FROM orders",
    )
    sql = (
        "UPDATE orders AS o SET state = n.name, times = times + 1 FROM names n "
        "WHERE n.order_id = o.id AND o.id >= :first AND o.id <= :last AND o.state IS NULL"
    )
    assert orders.run(sql, size=10).rows_updated == 30
    assert orders.times() == {1: 30}


def test_what_is_refused_before_anything_is_changed(orders: Orders) -> None:
    orders.make(3)
    for old, new, page, said in (
        ("id BETWEEN", "old BETWEEN", {"key": "old"}, "old of orders has no index for the batches"),
        ("id BETWEEN", "no BETWEEN", {"key": "no"}, "orders has no column no: correct `-- key:`"),
        ("orders", "lines", {"table": "lines"}, "there is no table lines in this database"),
        ("state", "stat", {}, "nothing was changed: correct the UPDATE"),
    ):
        with pytest.raises(ConfigError, match=said):
            orders.run(FILL.replace(old, new), size=None, **page)
    assert orders.times() == {0: 3}


def test_rows_without_a_key_are_refused_where_they_would_be_left(orders: Orders) -> None:
    orders.make(3, key="integer UNIQUE")
    orders.database.run("INSERT INTO orders (id) VALUES (NULL)")
    with pytest.raises(ConfigError, match="id is NULL in rows of orders that match the UPDATE"):
        orders.run()
    orders.database.run("UPDATE orders SET state = 'old' WHERE id IS NULL")
    assert orders.run().rows_updated == 3


def test_without_a_ledger_it_says_how_to_get_one(database: Database, tmp_path: Path) -> None:
    orders = Orders(database, tmp_path)
    orders.make(3)
    with pytest.raises(ConfigError, match="this database has no ledger: run `pipestate ledger install`"):
        orders.run()


def test_a_forecast_changes_nothing(orders: Orders) -> None:
    orders.make(250)
    orders.database.run("ANALYZE orders")
    found = find(orders.directory, orders.dialect)
    with db.reader(orders.database.url) as connection:
        reported = forecast(connection, found, batch_size=100)
    assert (reported.first_key, reported.last_key, reported.rows_in_table, reported.rows_to_update) == (
        "1",
        "250",
        250,
        250,
    )
    assert (reported.batches, reported.resumes_after) == (3, None)
    assert orders.database.value("SELECT count(*) FROM pipestate.backfill_progress") == 0
    with pytest.raises(Interrupted):
        orders.run(size=100, on_progress=at(1, interrupt))
    with db.reader(orders.database.url) as connection:
        assert forecast(connection, found).resumes_after == "100"


def test_a_forecast_counts_what_the_planner_does_not_know(pg_orders: Orders) -> None:
    """A column that was added since the last ANALYZE has no statistics."""
    pg_orders.make(0)
    pg_orders.database.run(
        "INSERT INTO orders (id) SELECT generate_series(1, 20000)",
        "ANALYZE orders",
        "ALTER TABLE orders ADD COLUMN fresh text",
    )
    sql = "UPDATE orders SET fresh = 'new' WHERE id BETWEEN :first AND :last AND fresh IS NULL"
    found = find(pg_orders.directory, pg_orders.dialect, sql)
    with db.reader(pg_orders.database.url) as connection:
        reported = forecast(connection, found)
    assert (reported.rows_to_update, reported.counted) == (20_000, True)


def test_a_count_that_takes_long_is_an_estimate(pg_orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    pg_orders.make(50)
    monkeypatch.setattr(postgresql, "COUNT_PATIENCE_MS", 50)
    sql = (
        "UPDATE orders SET state = 'new' WHERE id BETWEEN :first AND :last AND state IS NULL "
        "AND (SELECT pg_sleep(0.2)) IS NOT NULL"
    )
    found = find(pg_orders.directory, pg_orders.dialect, sql)
    with db.reader(pg_orders.database.url) as connection:
        assert forecast(connection, found).counted is False
        assert connection.exec_driver_sql("SHOW statement_timeout").scalar() != "50ms"
