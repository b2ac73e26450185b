"""Columns on their way back: nothing that reads the table happens under the lock, and a kill anywhere is made up for."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from attacks.sessions import wait_until
from bed import Database
from contracted import Contracted, lay_out
from pipestate.ddl import sql, update_in_batches
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.postgresql import archive, columns_return
from pipestate.ddl.postgresql.batches import run_batches
from pipestate.ddl.postgresql.block import run_block
from revisions import revision

TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, x int)",
    "INSERT INTO t SELECT n, n FROM generate_series(1, 5) n",
)
# True where this session does not hold the lock of the table whose rule it is.
UNLOCKED = """CREATE FUNCTION unlocked(int) RETURNS boolean LANGUAGE sql AS
$$SELECT NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 't'::regclass
                     AND mode = 'AccessExclusiveLock')$$"""
VALIDATED = "SELECT conname::text, convalidated FROM pg_constraint WHERE conrelid = 't'::regclass AND contype IN ('c', 'f', 'u')"


def contracted(
    root: Path, pg: Database, *statements: str, how: str = "per migration", **more: Any
) -> Contracted:
    """A project whose contract takes t.x away, at the end of the way up."""
    pg.run(*TABLE, *statements)
    project = lay_out(root, pg, how, columns={"t": ["x"]}, **more)
    project.upgrade()
    return project


@pytest.mark.parametrize("how", ["per migration", "script"])
def test_a_rule_is_validated_when_the_lock_is_gone(pg: Database, tmp_path: Path, how: str) -> None:
    pg.run(*TABLE, UNLOCKED, "ALTER TABLE t ADD CONSTRAINT c CHECK (unlocked(x)) NOT VALID")
    pg.run("ALTER TABLE t VALIDATE CONSTRAINT c")
    project = lay_out(tmp_path, pg, how, columns={"t": ["x"]})
    project.upgrade()
    assert pg.rows(VALIDATED) == []
    project.downgrade()
    assert pg.rows(VALIDATED) == [("c", True)]


def test_indexes_are_built_while_writers_go_on_those_of_unique_constraints_too(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unique = "ALTER TABLE t ADD CONSTRAINT u UNIQUE (x)"
    project = contracted(tmp_path, pg, unique, "CREATE INDEX i ON t (x)")
    run: list[str] = []
    emit = sql.emit

    def noted(statement: str) -> None:
        run.append(statement)
        emit(statement)

    monkeypatch.setattr(sql, "emit", noted)
    project.downgrade()
    built = [statement.partition(" ON ")[0] for statement in run if statement.startswith("CREATE")]
    assert sorted(built) == ["CREATE INDEX CONCURRENTLY i", "CREATE UNIQUE INDEX CONCURRENTLY u"]
    assert pg.rows(VALIDATED) == [("u", True)]


RULES = {
    "a check": ("ALTER TABLE t ADD CONSTRAINT c CHECK (x > 0)", "constraint c of t stays NOT VALID"),
    "a foreign key": (
        "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (x) REFERENCES t",
        "constraint c of t stays NOT VALID",
    ),
    "a unique constraint": (
        "ALTER TABLE t ADD CONSTRAINT c UNIQUE (x)",
        "constraint c of t did not come back: rows written since break it. It was: UNIQUE (x)",
    ),
}


@pytest.mark.parametrize("how", ["per migration", "all at once"])
@pytest.mark.parametrize("rule", RULES)
def test_what_rows_written_since_break_is_said_and_they_are_kept(
    pg: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture, rule: str, how: str
) -> None:
    statement, said = RULES[rule]
    project = contracted(tmp_path, pg, statement, how=how, derived={"t": {"x": "-7"}})
    pg.run("INSERT INTO t VALUES (8), (9)")
    project.downgrade()
    assert said in caplog.text
    assert pg.rows("SELECT id, x FROM t WHERE id > 4 ORDER BY 1") == [(5, 5), (8, -7), (9, -7)]
    expected = [] if rule == "a unique constraint" else [("c", False)]
    assert pg.rows(VALIDATED) == expected


def test_a_column_that_rows_written_since_leave_empty_takes_null(
    pg: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    project = contracted(tmp_path, pg, "ALTER TABLE t ALTER x SET NOT NULL")
    pg.run("INSERT INTO t VALUES (9)")
    project.downgrade()
    newer = int(str(pg.value("SHOW server_version_num"))) >= 180000
    assert ("stays NOT VALID" if newer else "t.x stays nullable") in caplog.text
    assert pg.value("SELECT x FROM t WHERE id = 9") is None


HANGING = (
    "ALTER TABLE t ALTER x SET NOT NULL",
    "ALTER TABLE t ADD CONSTRAINT c CHECK (x > 0)",
    "ALTER TABLE t ADD CONSTRAINT u UNIQUE (x) DEFERRABLE",
    "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (x) REFERENCES t",
    "CREATE INDEX i ON t (x)",
)
STEPS = ("return_columns", "settle_columns", "hang_columns", "validate_columns", "complete_columns")


class Killed(BaseException):
    """In the place of SIGKILL: what was committed stays, nothing else."""


def killed_after(step: str, project: Contracted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go back, and end after that step."""

    def end_after(name: str, *arguments: Any, **more: Any) -> None:
        run_block(name, *arguments, **more)
        if name == step:
            raise Killed

    for module in (archive, columns_return):
        monkeypatch.setattr(module, "run_block", end_after)
    with pytest.raises(Killed):
        project.downgrade()
    monkeypatch.undo()


@pytest.mark.parametrize("step", STEPS)
def test_ended_after_any_step_it_is_finished_by_a_rerun(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    project = contracted(tmp_path, pg, *HANGING, derived={"t": {"x": "s.id"}})

    killed_after(step, project, monkeypatch)
    if step in (
        "return_columns",
        "settle_columns",
    ):  # its transaction, or the rows are there and the rules are not
        pg.run("DELETE FROM t WHERE id = 2")
    project.downgrade()
    ids = [1, 3, 4, 5] if step in ("return_columns", "settle_columns") else [1, 2, 3, 4, 5]
    assert pg.rows("SELECT id, x FROM t ORDER BY 1") == [(id, id) for id in ids]
    rules = {(name, valid) for name, valid in pg.rows(VALIDATED) if name in ("c", "u", "f")}
    assert rules == {("c", True), ("u", True), ("f", True)}
    assert (
        pg.value("SELECT attnotnull FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'x'")
        is True
    )
    assert pg.value("SELECT count(*) FROM pg_index WHERE indrelid = 't'::regclass AND indisvalid") == 3
    assert pg.rows("SELECT to_regclass('pipestate_archive.t_columns_b2')") == [(None,)]


@pytest.mark.parametrize("step", ["settle_columns", "validate_columns"])
def test_a_column_that_went_again_after_a_kill_comes_back_with_its_values(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The copy says that they are back. They were."""
    project = contracted(tmp_path, pg, *HANGING)
    killed_after(step, project, monkeypatch)
    pg.run("ALTER TABLE t DROP COLUMN x")
    project.downgrade()
    assert pg.rows("SELECT id, x FROM t ORDER BY 1") == [(id, id) for id in range(1, 6)]
    assert {("c", True), ("u", True), ("f", True)} <= set(pg.rows(VALIDATED))


@pytest.mark.parametrize("step", ["settle_columns", "validate_columns"])
def test_a_column_that_somebody_made_anew_after_a_kill_is_not_taken_for_the_one_that_was_filled(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    project = contracted(tmp_path, pg, *HANGING)
    killed_after(step, project, monkeypatch)
    pg.run("ALTER TABLE t DROP COLUMN x", "ALTER TABLE t ADD x int NOT NULL DEFAULT 3")
    with pytest.raises(MigrationError, match="stands in x, which somebody has added again, in 4 rows"):
        project.downgrade()
    assert pg.value("SELECT sum(x) FROM pipestate_archive.t_columns_b2") == 15
    pg.run("ALTER TABLE t DROP COLUMN x")
    project.downgrade()
    assert pg.rows("SELECT id, x FROM t ORDER BY 1") == [(id, id) for id in range(1, 6)]


def test_who_writes_one_column_before_its_row_is_filled_does_not_lose_the_other(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pg.run("CREATE TABLE t (id int PRIMARY KEY, x int, y int)", "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
    project = lay_out(tmp_path, pg, columns={"t": ["x", "y"]})
    project.upgrade()
    fill = run_batches

    def written_before(*arguments: Any, **more: Any) -> None:
        with sql.autocommit():
            pg.run("UPDATE t SET x = 77 WHERE id = 2")
        fill(*arguments, **more)

    monkeypatch.setattr(columns_return, "run_batches", written_before)
    project.downgrade()
    assert pg.rows("SELECT id, x, y FROM t ORDER BY 1") == [(1, 1, 1), (2, 77, 2)]


def test_a_table_that_is_back_when_the_run_is_killed_is_known_by_the_next_one(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pg.run(*TABLE, "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (x) REFERENCES t")
    project = lay_out(tmp_path, pg, tables=["t"])
    project.upgrade()

    killed_after("validate_keys", project, monkeypatch)
    assert pg.rows("SELECT version_num FROM alembic_version") == [("b2",)]
    assert pg.value("SELECT count(*) FROM t") == 5
    project.downgrade()
    assert pg.rows(VALIDATED) == [("f", True)]
    assert pg.rows("SELECT count(*) FROM pipestate_archive.manifest") == [(0,)]


ON_SQLITE = {
    "it has the column again": ("ALTER TABLE t ADD COLUMN x INTEGER DEFAULT 7", "t has x again"),
    "it is gone": ("ALTER TABLE t RENAME TO u", "t does not exist"),
    "it has other rows": ("UPDATE t SET id = id + 1000", "none of the rows"),
}


@pytest.mark.parametrize("change", ON_SQLITE)
def test_on_sqlite_a_table_that_is_another_one_by_now_takes_nothing(
    sqlite_database: Database, tmp_path: Path, change: str
) -> None:
    statement, said = ON_SQLITE[change]
    sqlite_database.run(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER)", "INSERT INTO t VALUES (1, 1), (2, 2)"
    )
    project = lay_out(tmp_path, sqlite_database, columns={"t": ["x"]})
    project.upgrade()
    sqlite_database.run(statement)
    with pytest.raises(MigrationError, match=said):
        project.downgrade()
    assert sqlite_database.rows("SELECT id, x FROM pipestate_archive_t_columns_b2") == [(1, 1), (2, 2)]


@pytest.mark.parametrize("columns", [["x"], ["x", "y"]])
def test_who_writes_while_its_batch_waits_for_the_row_loses_nothing(
    pg: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: list[str]
) -> None:
    """The batch has seen the row empty, and waits for the writer who has it."""
    pg.run("CREATE TABLE t (id int PRIMARY KEY, x int, y int)", "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
    project = lay_out(tmp_path, pg, columns={"t": columns})
    project.upgrade()

    def written_meanwhile(*arguments: Any, **more: Any) -> None:
        with sql.autocommit():
            writer = pg.engine.connect()
            writer.exec_driver_sql("UPDATE t SET x = 77 WHERE id = 2")
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"

        def commit() -> None:
            wait_until(lambda: pg.value(waits) == 1, "the batch waits for the row")
            writer.commit()
            writer.close()

        with ThreadPoolExecutor(1) as pool:
            committed = pool.submit(commit)
            run_batches(*arguments, **more)
            committed.result()

    monkeypatch.setattr(columns_return, "run_batches", written_meanwhile)
    project.downgrade()
    assert pg.rows("SELECT id, x, y FROM t ORDER BY 1") == [(1, 1, 1), (2, 77, 2)]


def test_a_batch_of_the_way_back_goes_by_its_keys_whatever_the_planner_expects(pg: Database) -> None:
    """Of a range of texts it may expect thousands of rows, and then reads a whole table while 200 rows are locked."""
    how = "current_setting('enable_hashjoin') || current_setting('enable_mergejoin') || current_setting('enable_seqscan')"
    pg.run(*TABLE, "CREATE TABLE seen (how text)")
    with revision(pg):
        sql.emit(
            f"SELECT set_config('pipestate.work', $$INSERT INTO seen SELECT {how} FROM t WHERE {{range}}$$, false)"
        )
        run_batches("t", [], size=2)
        update_in_batches("t", "id", f"INSERT INTO seen SELECT {how} FROM t WHERE {{range}}")
    found = pg.rows("SELECT how, count(*) FROM seen GROUP BY 1 ORDER BY 1")
    assert found == [("offoffoff", 5), ("ononon", 5)], (
        "a statement of somebody else's may join without an index"
    )
