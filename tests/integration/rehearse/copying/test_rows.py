"""Rows from one database to another, through a pipe."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg2.extensions import TRANSACTION_STATUS_INERROR

from bed import Database, Postgres
from pipestate.rehearse.copying.inventory import Inventory, read_inventory
from pipestate.rehearse.copying.rows import CloneFailed, SourceFailed, copy_table
from pipestate.rehearse.copying.session import ask, session
from pipestate.rehearse.copying.snapshot import snapshot

MANY = "INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, 20000) AS i"


@pytest.fixture
def other(postgres: Postgres) -> Iterator[Database]:
    database = postgres.create()
    yield database
    postgres.drop(database)


def untold(_count: int) -> None:
    pass


def test_a_table_that_is_larger_than_the_pipe_arrives_whole(pg: Database, other: Database) -> None:
    for each in (pg, other):
        each.run("CREATE TABLE t (id integer, line text)")
    pg.run(MANY)
    with snapshot(pg.url) as moment, session(other.url) as clone:
        assert copy_table(moment.driver, clone, moment.found.relations[0], moment.found, untold) == 20000
    digest = "SELECT count(*), sum(id), sum(length(line)) FROM t"
    assert pg.rows(digest) == other.rows(digest)


def test_whose_fault_it_is(pg: Database, other: Database) -> None:
    """A full disk, a constraint, a missing table: the clone's. A reader that is ended: production's."""
    pg.run("CREATE TABLE t (id integer, line text)", MANY)
    other.run("CREATE TABLE t (id integer, line text, CHECK (id < 19000))")
    with snapshot(pg.url) as moment, session(other.url) as clone:
        (table,) = moment.found.relations
        with pytest.raises(CloneFailed) as failed:
            copy_table(moment.driver, clone, table, moment.found, untold)
        assert "violates check constraint" in str(failed.value.__cause__)
    with snapshot(pg.url) as moment, session(other.url) as clone:
        pg.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pipestate clone' "
            "AND datname = current_database()"
        )
        with pytest.raises(SourceFailed):
            copy_table(moment.driver, clone, table, moment.found, untold)


def test_a_table_that_comes_or_goes_before_it_is_locked_is_looked_at_again(
    pg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list of tables and their locks one is dropped and one is made, once."""
    pg.run("CREATE TABLE old (id integer)")
    looked: list[Inventory] = []

    def look_and_change(driver: Any) -> Inventory:
        looked.append(read_inventory(driver))
        if len(looked) == 1:
            pg.run("DROP TABLE old", "CREATE TABLE new AS SELECT 1 AS id")
        return looked[-1]

    monkeypatch.setattr("pipestate.rehearse.copying.snapshot.read_inventory", look_and_change)
    with snapshot(pg.url) as moment:
        assert [each.name for each in moment.found.relations] == ["new"]
        assert ask(moment.driver, "SELECT count(*) FROM public.new") == [(1,)]


@dataclass
class Late:
    """A connection of which a thread gets its cursor some time after it was started."""

    driver: Any
    after_s: float

    def cursor(self) -> Any:
        if threading.current_thread() is not threading.main_thread():
            time.sleep(self.after_s)
        return self.driver.cursor()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)


@pytest.mark.parametrize("after_s", [0, 0.3], ids=["while they copy", "before the servers have the query"])
def test_ctrl_c_ends_both_sides_at_once(
    pg: Database, other: Database, monkeypatch: pytest.MonkeyPatch, after_s: float
) -> None:
    """The clone is slow here, so that rows wait in the pipe: a connection that does not block would hang.

    A cancel that comes before its query does nothing, and the copy would go on to its end.
    """
    monkeypatch.setattr("pipestate.rehearse.copying.rows.TELL_EVERY_S", 0.05)
    slow = (
        "CREATE FUNCTION slow(integer) RETURNS boolean LANGUAGE sql AS 'SELECT pg_sleep(0.001) IS NOT NULL'"
    )
    pg.run("CREATE TABLE t (id integer, line text)", MANY)
    other.run(slow, "CREATE TABLE t (id integer, line text, CHECK (slow(id)))")

    def press_ctrl_c(_count: int) -> None:
        raise KeyboardInterrupt

    with snapshot(pg.url) as moment, session(other.url) as clone:
        source = Late(moment.driver, after_s)
        with pytest.raises(KeyboardInterrupt):
            copy_table(source, Late(clone, after_s), moment.found.relations[0], moment.found, press_ctrl_c)
        assert moment.driver.info.transaction_status == TRANSACTION_STATUS_INERROR
    assert other.value("SELECT count(*) FROM t") == 0
