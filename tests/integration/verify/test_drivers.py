"""What a read-only session reads, refuses and says is the same through every driver."""

import pytest
from sqlalchemy import Connection

from pipestate.database.connections import engine_of
from pipestate.verify.read import QueryFailed, read
from pipestate.verify.report import json_safe
from support.driver_connections import connected
from support.servers import Database

OTHERS = ("postgresql+psycopg", "postgresql+psycopg_async", "postgresql+asyncpg")
# What checks compare; "char" is what catalogues are full of.
VALUES = """SELECT 7::smallint AS small, 7::bigint AS big, 1.50::numeric AS exact, 0.1::real AS real, 2.5::float8 AS double,
       'NaN'::numeric AS nan, true AS yes, 'a%s :b' AS text, 'r'::"char" AS kind, 'n'::name AS name, NULL AS nothing,
       'pg_class'::regclass AS class, DATE '2026-01-02' AS day, TIMESTAMP '2026-01-02 03:04' AS naive,
       TIMESTAMPTZ '2026-01-02 03:04+02' AS moment, INTERVAL '1 day 2 hours' AS span, ARRAY[1, 2] AS numbers,
       '{"a": 1}'::jsonb AS document, '10.0.0.1'::inet AS address, '\\x00ff'::bytea AS bytes"""
REFUSED = {
    "SELECT 1 / 0": "division by zero",
    "SELECT no_such FROM nowhere": 'relation "nowhere" does not exist',
    "SELECT * FROM pipestate.run": "this database has no ledger",
    "SELECT nextval('counter')": "cannot execute nextval() in a read-only transaction",
    "SELECT pg_sleep(5)": "took longer than 0.2 s",
    "SELECT TIMESTAMP '20000-01-01'": "the query returned a value that cannot be read",
}


def answers(connection: Connection) -> list[object]:
    """Read all of it in one session: an error in one query must not spoil the next."""
    found: list[object] = []
    with engine_of(connection).read_only_session(connection):
        for sql in (*REFUSED, VALUES):
            try:
                (row,) = read(connection, sql, 0.2, most=3).rows
                found.append([json_safe(value) for value in row])
            except QueryFailed as error:
                found.append(str(error))
    settings = "SELECT current_setting('TimeZone'), current_setting('transaction_read_only')"
    found.append(tuple(connection.exec_driver_sql(settings).one()))
    return found


@pytest.mark.parametrize("driver", OTHERS)
def test_a_read_only_session_is_the_same(pg: Database, driver: str) -> None:
    pg.run("CREATE SEQUENCE counter", f"ALTER DATABASE {pg.url.database} SET TimeZone = 'Asia/Tokyo'")
    usual, found = (connected(pg, each, answers) for each in ("postgresql+psycopg2", driver))
    for expected, said in zip(REFUSED.values(), found, strict=False):
        assert str(said).startswith(expected)
    assert found[len(REFUSED) :] == usual[len(REFUSED) :]
    assert found[-1] == ("Asia/Tokyo", "off")


@pytest.mark.parametrize("driver", OTHERS)
def test_a_query_is_planned_anew_after_a_change(pg: Database, driver: str) -> None:
    """asyncpg keeps a plan from the first time on, psycopg 3 from the fifth; a revision changes the table."""

    def work(connection: Connection) -> list[tuple[str, ...]]:
        found = []
        for change in ("CREATE TABLE t (a int, b int)", "DO $$ BEGIN ALTER TABLE t DROP COLUMN b; END $$"):
            connection.exec_driver_sql(change)
            for _ in range(6):
                with engine_of(connection).read_only_session(connection):
                    found.append(read(connection, "SELECT * FROM t", 5, most=1).columns)
        return found

    assert connected(pg, driver, work) == [("a", "b")] * 6 + [("a",)] * 6


def test_a_read_only_session_of_sqlite_through_aiosqlite(sqlite_database: Database) -> None:
    """The authorizer and the deadline reach the connection that aiosqlite keeps on its thread."""
    slow = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n) SELECT count(*) FROM n"

    def work(connection: Connection) -> list[str]:
        said = []
        with engine_of(connection).read_only_session(connection):
            for sql in ("CREATE TABLE t (n)", "PRAGMA query_only = OFF", slow):
                with pytest.raises(QueryFailed) as refused:
                    read(connection, sql, 0.2, most=1)
                said.append(str(refused.value))
        connection.exec_driver_sql("CREATE TABLE t (n)")
        return said

    said = connected(sqlite_database, "sqlite+aiosqlite", work)
    assert said[:2] == ["not authorized"] * 2
    assert said[2].startswith("took longer than 0.2 s")
