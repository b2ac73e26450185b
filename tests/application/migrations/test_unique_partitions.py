"""A unique index of a table that is partitioned: over the columns of its partitions' key, or not at all."""

import pytest

from pipestate.ddl import Index, create_index
from pipestate.migration.failure import MigrationError
from support.revision_context import revision
from support.servers import Database


@pytest.mark.parametrize(
    ("keys", "partitioned"),
    [
        ("id", "RANGE (day)"),
        ("id, lower(state)", "RANGE (day)"),
        ("id, state", "RANGE (lower(state))"),  # which every version prints in the same words
        ("id, state", "LIST (state)"),
    ],
    ids=["by another column", "over an expression", "by an expression", "by another column below"],
)
def test_a_unique_index_that_partitions_cannot_keep_is_refused_in_one_sentence(
    pg: Database, keys: str, partitioned: str
) -> None:
    pg.run(
        f"CREATE TABLE orders (id integer, day date, state text) PARTITION BY {partitioned}",
        "CREATE TABLE later PARTITION OF orders DEFAULT PARTITION BY RANGE (day)",
        "CREATE TABLE latest PARTITION OF later DEFAULT",
    )
    with pytest.raises(MigrationError) as refused, revision(pg):
        create_index(Index("ux_orders", "orders", keys, unique=True))
    name, by = ("later", "RANGE (day)") if "LIST" in partitioned else ("orders", partitioned)
    assert str(refused.value) == (
        f"{name} is partitioned by {by}, so PostgreSQL cannot keep ux_orders ({keys}) unique over all partitions: add "
        "these columns to the index, or partition by columns of the index, then run the same again"
    )
    assert (
        pg.value("SELECT count(*) FROM pg_class WHERE relkind IN ('i', 'I') AND relname LIKE '%orders'") == 0
    )


def test_a_unique_index_with_the_columns_of_the_partitions_is_built(pg: Database) -> None:
    pg.run(
        "CREATE TABLE orders (id integer, day date, state text) PARTITION BY RANGE (day)",
        "CREATE TABLE later PARTITION OF orders DEFAULT",
    )
    with revision(pg):
        create_index(Index("ux_orders", "orders", "state, day DESC", unique=True))
    assert pg.value("SELECT indisvalid FROM pg_index WHERE indexrelid = 'ux_orders'::regclass") is True
