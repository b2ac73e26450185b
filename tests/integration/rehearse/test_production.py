from dataclasses import replace

from pipestate.rehearse.clone import tables_of
from pipestate.rehearse.run import read_figures
from support.servers import Database


def test_rows_are_those_that_the_planner_knows_and_else_by_the_size(pg: Database) -> None:
    pg.run(
        "CREATE TABLE counted AS SELECT generate_series(1, 500) AS id",
        "CREATE TABLE uncounted AS SELECT generate_series(1, 500) AS id",
        "CREATE TABLE empty (id integer)",
        "CREATE TABLE parted (id integer) PARTITION BY RANGE (id)",
        "CREATE TABLE gone (id integer)",
        "ALTER TABLE uncounted SET (autovacuum_enabled = off)",
        "ANALYZE counted",
    )
    tables = tables_of(pg.url)
    pg.run("DROP TABLE gone")
    known = {"counted": 500, "empty": 0, "parted": 0}
    assert {name: rows for name, (rows, _) in read_figures(pg.url, tables).items()} == {
        **known,
        "uncounted": 1,
    }  # at least one: its file is not empty
    denser = [replace(table, rows=300, bytes=table.bytes // 2) for table in tables]
    assert {name: rows for name, (rows, _) in read_figures(pg.url, denser).items()} == {
        **known,
        "uncounted": 600,
    }
