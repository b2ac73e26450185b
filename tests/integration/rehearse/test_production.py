from bed import Database
from pipestate.rehearse.clone import tables_of
from pipestate.rehearse.production import count_rows


def test_rows_are_those_that_the_planner_knows_and_unknown_where_nobody_looked(pg: Database) -> None:
    pg.run(
        "CREATE TABLE counted AS SELECT generate_series(1, 500) AS id",
        "CREATE TABLE uncounted AS SELECT generate_series(1, 500) AS id",
        "CREATE TABLE parted (id integer) PARTITION BY RANGE (id)",
        "CREATE TABLE gone (id integer)",
        "ALTER TABLE uncounted SET (autovacuum_enabled = off)",
        "ANALYZE counted",
    )
    tables = tables_of(pg.url)
    pg.run("DROP TABLE gone")
    assert count_rows(pg.url, tables) == {"counted": 500, "uncounted": None, "parted": 0, "gone": None}
