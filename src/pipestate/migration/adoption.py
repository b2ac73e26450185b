"""Helpers of a chain that adopts an existing schema; its downgrades drop objects of the chain alone.

The shipped chain is one. Any project may use `pipestate.ddl`; these helpers are internal.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from pipestate.migration.definitions import Index
from pipestate.migration.definitions import KeyOf as KeyOf
from pipestate.migration.definitions import Shape as Shape
from pipestate.migration.definitions import table_of as table_of
from pipestate.migration.engine import engine
from pipestate.migration.mark import force_reason as force_reason
from pipestate.migration.mark import require_gate


def refuse_wrong_shapes(shapes: Sequence[Shape]) -> None:
    """Refuse, before the first change, a table of the right name with another shape."""
    engine().refuse_wrong_shapes(shapes)


def refuse_state(
    table: str, *, having: Sequence[str], lacking: Sequence[str], gone: str, message: str
) -> None:
    """Refuse a database if the table has all `having` columns, no `lacking` column, and `gone` is absent."""
    engine().refuse_state(table, having=having, lacking=lacking, gone=gone, message=message)


def create_table(table: sa.Table, *indexes: Index) -> None:
    """Create the table with its indexes; restore it if a downgrade put it into the archive.

    An existing table is left as it is: the helpers that add columns, constraints and indexes adopt it.
    """
    engine().create_table(table, *indexes)


def drop_table(name: str) -> None:
    """Drop an empty table of the chain; archive one with rows, so that it can be restored."""
    require_gate(f"drop_table({name!r})", name)
    engine().drop_table(name)


def create_view(name: str, queries: Mapping[str, str], *, comment: str) -> None:
    """Create a view; `queries` has its query for `postgresql` and for `sqlite`."""
    engine().create_view(name, queries, comment=comment)


def drop_view(name: str) -> None:
    """Drop a view that the chain created."""
    require_gate(f"drop_view({name!r})")
    engine().drop_view(name)


def drop_columns(table: str, columns: Sequence[str]) -> None:
    """Drop those of the columns that the chain created, in one ALTER."""
    require_gate(f"drop_columns({table!r}, ...)", table)
    engine().drop_columns(table, columns)


def use_timestamptz(table: str, columns: Sequence[str], *, indexes: Sequence[str] = ()) -> None:
    """Turn naive timestamps into timestamptz, reading them in `-x naive-timezone` (UTC by default).

    With UTC no row is rewritten. PostgreSQL would rebuild an index on the column under the lock, so the
    indexes in `indexes` are dropped first: create them again, concurrently, afterwards. Another zone makes
    PostgreSQL rewrite the table under the lock.
    """
    engine().use_timestamptz(table, columns, indexes=indexes)


def require_not_null(table: str, key: str, repairs: Mapping[str, str]) -> None:
    """Make columns NOT NULL; first replace each NULL by the column's repair expression, in batches.

    A repair that equals its column repairs nothing: the error names the rows with a NULL, and the table stays
    unchanged.
    """
    engine().require_not_null(table, key, repairs)


def set_default(table: str, column: str, expression: str) -> None:
    """Give a nullable column of an adopted table a default, so that its writers keep working (PostgreSQL)."""
    engine().set_default(table, column, expression)


def drop_constraint(table: str, name: str) -> None:
    """Drop a constraint that the chain created."""
    require_gate(f"drop_constraint({table!r}, {name!r})", table)
    engine().drop_constraint(table, name)


def drop_index(*names: str, partitions: bool = False) -> None:
    """Drop indexes that the chain created, without blocking writers.

    `partitions` adds the statements for a partitioned table to scripts for psql; online they are detected.
    """
    require_gate(f"drop_index({', '.join(map(repr, names))})")
    engine().drop_index(*names, partitions=partitions)


def comment_column(table: str, column: str, comment: str) -> None:
    """Comment on a column (PostgreSQL)."""
    engine().comment_column(table, column, comment)


def replace_comment(table: str, comment: str, *, revision: str) -> None:
    """Comment on a table, and keep the former comment (PostgreSQL)."""
    engine().replace_comment(table, comment, revision=revision)


def restore_comment(table: str, comment: str, *, revision: str) -> None:
    """Restore the former comment of a table, unless the current one differs from `comment`."""
    engine().restore_comment(table, comment, revision=revision)


def analyze_table(*tables: str) -> None:
    """Update the planner's statistics of new columns and indexes.

    Without them it overestimates matching rows.
    """
    engine().analyze_table(*tables)


def install_objects() -> None:
    """Create the objects that a chain with a registry needs from its first revision on."""
    engine().install_objects()


def remove_objects() -> None:
    """Drop the registry, and its schema if that is empty."""
    require_gate("remove_objects()")
    engine().remove_objects()
