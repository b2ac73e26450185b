"""Backfills on PostgreSQL: kinds of keys and tables, locks, and who waits."""

import threading
import time

import pytest
from sqlalchemy.exc import DBAPIError

from pipestate.backfill import loop, postgresql
from pipestate.backfill.loop import BackfillFailed
from pipestate.backfill.recorded import How, run
from pipestate.core.errors import ConfigError, Unreachable
from support.backfills import Orders, by_itself, find
from support.servers import Database

KEYS = {
    "smallint": "n - 20",
    "bigint": "n * 1000000000000",
    "numeric": "n / 7.0",
    "uuid": "md5(n::text)::uuid",
    "text": "CASE n WHEN 3 THEN 'o''neil' WHEN 4 THEN '\\back' WHEN 5 THEN ':first' ELSE 'k' || n END",
    'text COLLATE "C"': "'K' || n",
    "varchar(12)": "'%s' || n",
    "char(8)": "'c' || n",
    "date": "date '2026-01-01' + n",
    "timestamp": "timestamp '2026-01-01' + n * interval '1.000001 hour'",
    "timestamptz": "timestamptz '2026-03-29 00:00+01' + n * interval '10.000001 minutes'",
}


def test_keys(pg_orders: Orders) -> None:
    name = pg_orders.database.url.database
    pg_orders.database.run(
        f"ALTER DATABASE {name} SET TimeZone = 'Asia/Kolkata'",
        f"ALTER DATABASE {name} SET DateStyle = 'German'",
    )
    for kind, value in KEYS.items():
        pg_orders.make(0, key=f"{kind} PRIMARY KEY")
        pg_orders.database.run(f"INSERT INTO orders (id) SELECT {value} FROM generate_series(1, 50) n")
        pg_orders.run(size=7)
        assert pg_orders.times() == {1: 50}, kind
        pg_orders.database.run("DROP TABLE orders")


def test_a_key_that_is_not_unique(pg_orders: Orders) -> None:
    pg_orders.make(0, key="integer NOT NULL")
    pg_orders.database.run(
        "CREATE INDEX ON orders (id)", "INSERT INTO orders (id) SELECT n / 10 FROM generate_series(0, 99) n"
    )
    assert pg_orders.run(size=7).rows_updated == 100
    assert pg_orders.times() == {1: 100}


def test_what_is_no_key(pg_orders: Orders) -> None:
    columns = "state text, times int"
    for make, said in (
        (f"CREATE TABLE orders (id integer, {columns})", "has no index for the batches"),
        (
            f"CREATE TABLE orders (id integer, {columns}); CREATE INDEX ON orders (id) WHERE state IS NULL",
            "has no index for the batches",
        ),
        (
            f"CREATE TABLE orders (id integer, {columns}); CREATE INDEX ON orders (state, id)",
            "has no index for the batches",
        ),
        (f"CREATE TABLE orders (id jsonb PRIMARY KEY, {columns})", "is of type jsonb, which cannot be split"),
        ("CREATE VIEW orders AS SELECT 1 AS id, ''::text AS state, 0 AS times", "orders is no table"),
    ):
        pg_orders.database.run(make)
        with pytest.raises(ConfigError, match=said):
            pg_orders.run()
        pg_orders.database.run(f"DROP {make.split()[1]} orders")


def test_odd_names_in_another_schema(pg_orders: Orders) -> None:
    table, key = '"Odd Schema"."Order ""Lines"" :first"', '"The Key"'
    pg_orders.database.run(
        'CREATE SCHEMA "Odd Schema"',
        f"CREATE TABLE {table} ({key} integer PRIMARY KEY, state text)",
        f"INSERT INTO {table} SELECT n FROM generate_series(1, 20) n",
    )
    sql = f"UPDATE {table} SET state = '%s' WHERE {key} BETWEEN :first AND :last AND state IS NULL"
    assert pg_orders.run(sql, table=table, key=key, size=6).rows_updated == 20


def test_the_search_path_finds_the_table(pg_orders: Orders) -> None:
    pg_orders.database.run(
        "CREATE SCHEMA shop", f"ALTER DATABASE {pg_orders.database.url.database} SET search_path = shop"
    )
    pg_orders.make(20)
    pg_orders.database.run("CREATE TABLE public.orders (id integer, state text, times integer)")
    assert pg_orders.run().rows_updated == 20


def test_a_partitioned_table(pg_orders: Orders) -> None:
    pg_orders.database.run(
        "CREATE TABLE orders (id integer PRIMARY KEY, state text, times int DEFAULT 0) PARTITION BY RANGE (id)",
        "CREATE TABLE orders_1 PARTITION OF orders FOR VALUES FROM (1) TO (20)",
        "CREATE TABLE orders_2 PARTITION OF orders FOR VALUES FROM (20) TO (100)",
        "INSERT INTO orders SELECT n FROM generate_series(1, 50) n",
    )
    assert pg_orders.run(size=15).rows_updated == 50
    assert pg_orders.times() == {1: 50}


def test_two_at_once_are_one_and_a_sentence(pg_orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "TURN_PATIENCE_S", 0.1)
    pg_orders.make(5)
    said = "another run of orders/state is working on this database"
    with (
        by_itself(pg_orders.database) as other,
        postgresql.turn(other, "orders/state"),
        pytest.raises(Unreachable, match=said),
    ):
        pg_orders.run()
    assert pg_orders.run().rows_updated == 5


def test_a_batch_that_a_rule_refuses_stops_the_run_and_the_rest_stays(pg_orders: Orders) -> None:
    pg_orders.make(50)
    pg_orders.database.run("ALTER TABLE orders ADD CHECK (id <> 33 OR state IS NULL)")
    with pytest.raises(
        BackfillFailed, match=r"the server refused the batch after id 30: .*check.*30 rows in this run"
    ):
        pg_orders.run(size=10)
    assert pg_orders.times() == {0: 20, 1: 30}


def test_a_row_that_is_locked_for_a_while_is_waited_for(
    pg_orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgresql.SETTINGS, "lock_timeout", "20ms")
    pg_orders.make(50)
    said: list[str] = []
    with pg_orders.database.engine.connect() as other:
        other.exec_driver_sql("UPDATE orders SET old = 'x' WHERE id = 30")

        def let_go(sentence: str) -> None:
            said.append(sentence)
            other.commit()

        done = pg_orders.run(size=10, on_wait=let_go)
        assert (done.rows_updated, said) == (
            50,
            ["another session has locked rows of orders: trying again for 30 s"],
        )


def test_a_row_that_stays_locked_ends_it_and_says_who(
    pg_orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgresql.SETTINGS, "lock_timeout", "10ms")
    monkeypatch.setattr(loop, "LOCK_PATIENCE_S", 0.1)
    pg_orders.make(50)
    with pg_orders.database.engine.connect() as other:
        other.exec_driver_sql("UPDATE orders SET old = 'x' WHERE id = 30")
        with pytest.raises(
            Unreachable, match=r"rows of orders stayed locked .* locked by pid \d+ .*command continues"
        ):
            pg_orders.run(size=10)
    assert pg_orders.times() == {0: 30, 1: 20}


def test_who_waits_for_a_batch_is_seen(pg_orders: Orders) -> None:
    pg_orders.make(5)
    with by_itself(pg_orders.database) as ours, pg_orders.database.engine.connect() as other:
        postgresql.begin(ours)
        ours.exec_driver_sql("UPDATE orders SET state = 'x' WHERE id = 3")
        assert not postgresql.waited_for(ours)
        writing = "UPDATE orders SET old = 'x' WHERE id = 3"
        waiter = threading.Thread(target=other.exec_driver_sql, args=(writing,))
        waiter.start()
        end = time.monotonic() + 10
        while not postgresql.waited_for(ours) and time.monotonic() < end:
            time.sleep(0.01)
        assert postgresql.waited_for(ours)
        ours.exec_driver_sql("COMMIT")
        waiter.join()


def test_without_replicas_nothing_is_behind(pg_orders: Orders) -> None:
    pg_orders.make(5)
    assert pg_orders.run(max_lag_s=0.5).rows_updated == 5


def test_rows_that_a_policy_hides_are_an_error(pg_orders: Orders) -> None:
    """They would be left, and nobody would know."""
    pg, tmp_path = pg_orders.database, pg_orders.directory
    role = f"clerk_{pg.url.database}"
    pg_orders.make(5)
    pg.run(
        f"CREATE ROLE {role} LOGIN PASSWORD 'x'",
        f"GRANT SELECT, UPDATE ON orders TO {role}",
        f"GRANT USAGE ON SCHEMA pipestate TO {role}",
        f"GRANT SELECT, INSERT, UPDATE ON pipestate.backfill_progress TO {role}",
        "ALTER TABLE orders ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY few ON orders TO {role} USING (id < 3)",
    )
    try:
        clerk = Database(pg.url.set(username=role, password="x"))
        with by_itself(clerk) as connection, pytest.raises(DBAPIError, match="row-level security"):
            run(connection, find(tmp_path, "postgresql"), How())
        pg.run("DROP POLICY few ON orders", "ALTER TABLE orders DISABLE ROW LEVEL SECURITY")
        with by_itself(clerk) as connection:
            assert run(connection, find(tmp_path, "postgresql"), How()).rows_updated == 5
    finally:
        pg.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.parametrize(
    ("way", "first", "second"),
    [
        ("RANGE (id)", "FROM (0) TO (30)", "FROM (30) TO (1000)"),
        ("HASH (id)", "WITH (MODULUS 2, REMAINDER 0)", "WITH (MODULUS 2, REMAINDER 1)"),
    ],
)
def test_a_partitioned_table_is_walked_in_the_order_of_its_key(
    pg_orders: Orders, way: str, first: str, second: str
) -> None:
    pg_orders.database.run(
        f"CREATE TABLE orders (id integer PRIMARY KEY, state text, times integer NOT NULL DEFAULT 0, old text) "
        f"PARTITION BY {way}",
        f"CREATE TABLE orders_a PARTITION OF orders FOR VALUES {first}",
        f"CREATE TABLE orders_b PARTITION OF orders FOR VALUES {second}",
    )
    pg_orders.add(1, 50)
    done = pg_orders.run(size=10)
    assert (done.rows_updated, pg_orders.times()) == (50, {1: 50})
