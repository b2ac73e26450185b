"""A clone has all that production had at one moment, and production notices nothing but one reader."""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.core.progress import Progress, no_progress
from pipestate.database.interrupt import Interrupted
from pipestate.rehearse.contents import Contents, differences, read_contents
from pipestate.rehearse.copying.make import cloned
from pipestate.rehearse.copying.require import WantedClone
from pipestate.rehearse.copying.snapshot import Inventory, fetch, read_inventory, read_production, snapshot
from support.odd_production import drop_odd, make_odd
from support.servers import Database, Postgres

ALL = WantedClone(2**30)


@dataclass(frozen=True)
class Copied:
    """Production before it was copied, the clone, and what was said."""

    production: Database
    reader: Database
    contents: Contents
    clone: Database
    said: list[str]
    could_drop: bool


def can_drop(production: Database) -> bool:
    try:
        production.run("SET LOCAL lock_timeout = '50ms'", "DROP TABLE checked")
    except DBAPIError:
        return False
    return True


def major(database: Database) -> int:
    return int(str(database.value("SHOW server_version_num"))) // 10000


@pytest.fixture(scope="module")
def copied(postgres: Postgres) -> Iterator[Copied]:
    """Copy it with the role that can only read, while others write."""
    production, reader = make_odd(postgres)
    contents = read_contents(production.url)
    said: list[str] = []
    could_drop: list[bool] = []

    def listen(sentence: str) -> None:
        if sentence.startswith("copying "):  # the moment is held
            production.run("INSERT INTO kinds (said) VALUES ('too late')", "UPDATE hen SET egg = NULL")
            could_drop.append(can_drop(production))
        said.append(sentence)

    with cloned(reader.url, ALL, listen) as clone:
        database = Database(clone)
        yield Copied(production, reader, contents, database, said, could_drop[0])
        database.engine.dispose()
    drop_odd(postgres, production)


def test_every_definition_and_every_row_is_of_one_moment(copied: Copied) -> None:
    found = read_contents(copied.clone.url)
    assert found.digests == copied.contents.digests
    if major(copied.clone) == major(copied.production):  # others write the same definitions otherwise
        assert list(differences(copied.contents, found)) == []
    assert not copied.could_drop


def test_sequences_go_on_where_production_is_or_behind_the_rows(copied: Copied) -> None:
    """The role may read `standalone`; of the others it knows the columns that they belong to."""
    clone = copied.clone
    assert clone.value("SELECT nextval('standalone')") == 7
    last = clone.value("SELECT max(id) FROM kinds")
    clone.run("INSERT INTO kinds (said) VALUES ('next')")
    assert clone.rows("SELECT id, n FROM kinds WHERE said = 'next'") == [(int(str(last)) + 3, 24)]
    assert any("may not read the values of sequences" in sentence for sentence in copied.said)


def test_what_stands_on_the_rows_is_there(copied: Copied) -> None:
    clone = copied.clone
    assert clone.rows("SELECT kinds, twice FROM a_sums, b_sums") == [(23, 46)]
    populated = clone.rows("SELECT relname FROM pg_class WHERE relkind = 'm' AND relispopulated ORDER BY 1")
    assert populated == [("a_sums",), ("b_sums",)]
    assert clone.rows("SELECT pubname, puballtables FROM pg_publication") == [("everything", True)]
    assert clone.value("SELECT count(*) FROM pg_event_trigger") == 1
    assert clone.rows("SELECT name FROM pipestate.observation") == [("x",)]
    assert clone.rows("SHOW search_path") == [('public, "S.x"',)]
    assert clone.value("SELECT current_setting('app.tenant')") == "it's"
    assert clone.rows("SHOW fsync") == [("on",)]


def test_a_clone_can_reach_nobody_and_says_what_it_lacks(copied: Copied) -> None:
    clone = copied.clone
    assert clone.value("SELECT count(*) FROM pg_subscription") == 0
    with pytest.raises(DBAPIError, match="has no handler"):
        clone.run("SELECT * FROM of_distant")
    left_out = " ".join(sentence for sentence in copied.said if sentence.startswith("left out: "))
    for what in ("distant", "1 large object", "pipestate_archive.old"):
        assert what in left_out, what


def test_production_keeps_nothing_of_it(copied: Copied) -> None:
    sessions = copied.production.rows(
        "SELECT application_name, query FROM pg_stat_activity WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"  # autovacuum may come in
    )
    assert sessions == []


def refuses(reader: Database, wanted: WantedClone = ALL) -> str:
    """Request a clone that is refused before a server is started."""
    with pytest.raises(ConfigError) as refused, cloned(reader.url, wanted):
        pass
    return str(refused.value)


def test_what_cannot_be_copied_whole_is_refused_before_anything_begins(copied: Copied) -> None:
    production, reader = copied.production, copied.reader
    assert "above --max-size (1 kB): raise it, or give --on a clone" in refuses(reader, WantedClone(2**10))
    role = reader.url.username
    production.run("ALTER TABLE kinds ENABLE ROW LEVEL SECURITY")
    assert f"row security hides rows of kinds from the role {role}" in refuses(reader)
    production.run("ALTER TABLE kinds DISABLE ROW LEVEL SECURITY", f"REVOKE SELECT ON hen FROM {role}")
    assert f"the role {role} may not read hen: GRANT" in refuses(reader)
    production.run(f"GRANT SELECT ON hen TO {role}")


def abandoned(
    database: Database, wanted: WantedClone, reported: Progress, expected: type[PipestateError]
) -> str:
    """Make a clone that fails on the way; nothing may be left of it, here or on production."""
    with tempfile.TemporaryDirectory(prefix="t-") as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", place)
        with pytest.raises(expected) as failed, cloned(database.url, wanted, on_progress=reported):
            pass
        assert list(Path(place).iterdir()) == []
    assert failed.value.exit_code == 3
    others = "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND "
    assert database.value(others + READERS) == 0
    return str(failed.value)


LARGE = "CREATE TABLE large AS SELECT i AS id, repeat('x', 200) AS line FROM generate_series(1, 100000) AS i"
READERS = "application_name IN ('pipestate clone', 'pg_dump') AND datname = current_database()"


@pytest.mark.scene
def test_production_that_goes_away_and_ctrl_c_leave_nothing_behind(pg: Database) -> None:
    """The table is larger than the pipe: pg_dump still reads when the first rows arrive."""
    pg.run(LARGE)

    def end_the_readers(done: int, total: int) -> None:
        pg.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {READERS}")

    said = abandoned(pg, ALL, end_the_readers, Unreachable)
    assert re.match(
        r"the rows of production could not be read: .*; the clone was removed, production was not", said
    )

    def press_ctrl_c(done: int, total: int) -> None:
        raise KeyboardInterrupt

    said = abandoned(pg, ALL, press_ctrl_c, Interrupted)
    assert said.startswith("interrupted: queries on production were cancelled; the clone was removed")


def test_rows_that_the_clone_refuses_are_its_own_fault(pg: Database) -> None:
    """A CHECK that depends on more than its row may hold here, and fail there."""
    here = pg.value("SELECT setting FROM pg_settings WHERE name = 'data_directory'")
    pg.run(LARGE, f"ALTER TABLE large ADD CHECK (id < 90000 OR current_setting('data_directory') = '{here}')")
    said = abandoned(pg, ALL, no_progress, Unreachable)
    assert said.startswith("production's rows could not be written to the clone: ")
    assert "violates check constraint" in said


def test_a_table_that_comes_or_goes_before_it_is_locked_is_looked_at_again(
    pg: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list of tables and their locks one is dropped and one is made, once."""
    pg.run("CREATE TABLE old (id integer)")
    inventories: list[Inventory] = []

    def read_and_change(driver: Any) -> Inventory:
        inventories.append(read_inventory(driver))
        if len(inventories) == 1:
            pg.run("DROP TABLE old", "CREATE TABLE new AS SELECT 1 AS id")
        return inventories[-1]

    monkeypatch.setattr("pipestate.rehearse.copying.snapshot.read_inventory", read_and_change)
    with snapshot(pg.url, read_production(pg.url)) as moment:
        assert [each.name for each in moment.found.relations] == ["new"]
        assert fetch(moment.driver, "SELECT count(*) FROM public.new") == [(1,)]


def test_without_rows_the_version_table_and_sequences_arrive(pg: Database) -> None:
    pg.run("CREATE TABLE t (id serial)", "INSERT INTO t DEFAULT VALUES")
    pg.run("CREATE TABLE alembic_version (version_num text)", "INSERT INTO alembic_version VALUES ('a1')")
    with cloned(pg.url, WantedClone(2**30, schema_only=True)) as clone:
        copy = Database(clone)
        assert copy.rows("SELECT version_num, (SELECT count(*) FROM t) FROM alembic_version") == [("a1", 0)]
        assert copy.value("SELECT nextval('t_id_seq')") == 2
        copy.engine.dispose()
