"""Constraints, as revisions add and drop them."""

from collections.abc import Mapping

from pipestate.ddl.engine import engine
from pipestate.ddl.mark import require_gate


def add_checks(table: str, checks: Mapping[str, str]) -> None:
    """Add named CHECKs. Rows that break one are found first: nothing is changed when there are any."""
    engine().add_checks(table, checks)


def add_foreign_key(
    table: str,
    name: str,
    column: str,
    target: str,
    *,
    on_delete: str,
    target_column: str = "id",
    partitions: bool = False,
) -> None:
    """Add a named foreign key, unless the table has one of its own on that column to that target.

    `partitions` puts into scripts for psql what a partitioned table needs; online it is seen.
    """
    engine().add_foreign_key(
        table,
        name,
        column,
        target,
        on_delete=on_delete,
        target_column=target_column,
        partitions=partitions,
    )


def drop_constraint(table: str, name: str) -> None:
    """Drop a constraint that the chain created."""
    require_gate(f"drop_constraint({table!r}, {name!r})", table)
    engine().drop_constraint(table, name)
