"""One site among two, as the tests of its counters look at it."""

import time

from sqlalchemy import Connection

from support.alembic_runs import Migrations
from support.servers import Database

SITE = "a.gov"


def fill_sites(database: Database) -> None:
    Migrations(database).upgrade("0005")
    database.run(f"INSERT INTO sites (subdomain) VALUES ('{SITE}'), ('b.gov')")


def site(conn: Connection, *columns: str) -> tuple[object, ...]:
    query = f"SELECT {', '.join(columns)} FROM sites WHERE subdomain = '{SITE}'"
    return tuple(conn.exec_driver_sql(query).one())


def claims(conn: Connection) -> list[tuple[object, ...]]:
    rows = conn.exec_driver_sql("SELECT subdomain, stage, attempts FROM pipeline_claim ORDER BY 1")
    return [tuple(row) for row in rows]


def everything(conn: Connection) -> list[object]:
    tables = ("sites", "pipeline_job", "pipeline_claim")
    return [
        tuple(row) for table in tables for row in conn.exec_driver_sql(f"SELECT * FROM {table} ORDER BY 1")
    ]


def wait_for_locks(database: Database, number: int) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    for _ in range(400):
        if database.value(query) == number:
            return
        time.sleep(0.02)
    raise AssertionError(f"{number} sessions never waited")
