"""A clone of SQLite is a copy of the file."""

from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.rehearse.copying.make import cloned
from pipestate.rehearse.copying.require import WantedClone
from support.servers import Database

ALL = WantedClone(2**30)


def test_the_file_is_copied_also_while_somebody_writes_and_gone_at_the_end(sqlite_database: Database) -> None:
    sqlite_database.run("CREATE TABLE t (id integer)", "INSERT INTO t VALUES (1)")
    reported: list[tuple[int, int]] = []
    with sqlite_database.begin() as writer:
        writer.exec_driver_sql("INSERT INTO t VALUES (2)")
        with cloned(sqlite_database.url, ALL, on_progress=lambda *done: reported.append(done)) as clone:
            copy = Database(clone)
            assert copy.rows("SELECT id FROM t") == [(1,)]
            copy.run("DROP TABLE t")
            copy.engine.dispose()
    assert reported[-1][0] == reported[-1][1] > 0
    assert not Path(str(clone.database)).parent.exists()
    assert sqlite_database.value("SELECT count(*) FROM t") == 2


def test_what_is_refused(sqlite_database: Database, tmp_path: Path) -> None:
    sqlite_database.run("CREATE TABLE t (id integer)")
    for wanted, said in (
        (WantedClone(10), "above --max-size"),
        (WantedClone(2**30, schema_only=True), "--schema-only is for"),
    ):
        with pytest.raises(ConfigError, match=said), cloned(sqlite_database.url, wanted):
            pass
    gone = sqlite_database.url.set(database=str(tmp_path / "none"))
    with pytest.raises(Unreachable, match="there is no file"), cloned(gone, ALL):
        pass
