"""Indexes, as revisions create and drop them."""

from pipestate.ddl.definitions import Index
from pipestate.ddl.engine import engine
from pipestate.ddl.mark import require_gate


def create_index(index: Index) -> None:
    """Make sure that the index exists, is valid and is what it says; writers go on meanwhile."""
    engine().create_index(index)


def drop_index(name: str, *, partitions: bool = False) -> None:
    """Drop an index that the chain created, without blocking anybody.

    `partitions` puts into scripts for psql what the index of a partitioned table needs; online it is seen.
    """
    require_gate(f"drop_index({name!r})")
    engine().drop_index(name, partitions=partitions)
