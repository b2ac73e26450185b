"""Definitions of tables and indexes, and helpers of migrations that adopt an existing schema.

The shipped migrations are such: their downgrades drop only objects that they created. Any project may use `pipestate.ddl`; these
helpers are internal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import UserDefinedType

from pipestate.migration import sql
from pipestate.migration.engine import engine
from pipestate.migration.request import force_reason as force_reason
from pipestate.migration.request import require_gate


@dataclass(frozen=True, slots=True)
class Index:
    """An index, with its keys and predicate spelt as PostgreSQL prints them, except casts: `(a, b DESC)`.

    The index is skipped if the table lacks a column in `needs`, or has one of another type than `types`.
    Types are PostgreSQL's: an index that names some is for PostgreSQL alone.

    `partitions` adds the statements for a partitioned table to scripts for psql; online they are detected.
    """

    name: str
    table: str
    keys: str
    unique: bool = False
    where: str | None = None
    needs: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    partitions: bool = False

    @property
    def full_name(self) -> str:
        """Return the name with its schema: an index lives in the schema of its table."""
        schema, dot, _ = self.table.rpartition(".")
        return f"{schema}{dot}{self.name}"

    def definition(self) -> str:
        predicate = f" WHERE ({self.where})" if self.where else ""
        return f"({self.keys}){predicate}"

    def statement(self, concurrently: bool = False, name: str | None = None) -> str:
        """Write the CREATE INDEX; `name` replaces the index's own name."""
        unique = "UNIQUE " if self.unique else ""
        how = "CONCURRENTLY " if concurrently else ""
        target = f"{sql.name(name or self.name)} ON {sql.name(self.table)}"
        return f"CREATE {unique}INDEX {how}{target} {self.definition()}"


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns and key that an existing table of that name must have to be adopted.

    With `partitions` it may be partitioned: its key is then the first column of a unique index. `unique`
    names columns that the migrations will make unique together. PostgreSQL does this only for a table that is
    partitioned by these columns alone. `times` names columns that checks compare with the clock: PostgreSQL
    cannot compare text so.
    """

    table: str
    key: str
    columns: tuple[str, ...]
    partitions: bool = False
    unique: tuple[str, ...] = ()
    times: tuple[str, ...] = ()


class KeyOf(UserDefinedType[Any]):
    """The type of another table's column, as it is in this database: foreign keys follow it.

    `sa.Column("order_id", KeyOf("orders.id"))` is a uuid where `orders.id` is one.
    """

    cache_ok = True

    def __init__(self, column: str) -> None:
        self.column = column

    def get_col_spec(self, **_: Any) -> str:
        return f"{{type of {self.column}}}"


def keys_of_others(table: sa.Table) -> list[str]:
    """List the columns of other tables that define types of this table's columns."""
    return [column.type.column for column in table.columns if isinstance(column.type, KeyOf)]


def table_of(name: str, *parts: sa.Column[Any] | sa.Constraint) -> sa.Table:
    """Make a table as a revision defines it: literal, in a separate MetaData."""
    metadata = sa.MetaData()
    for part in parts:
        if isinstance(part, sa.ForeignKeyConstraint):
            for element in part.elements:
                target, _, column = element.target_fullname.rpartition(".")
                sa.Table(target, metadata, sa.Column(column), keep_existing=True)
    return sa.Table(name, metadata, *parts)


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
    """Drop an empty table that the migrations created; archive one with rows, so that it can be restored."""
    require_gate(f"drop_table({name!r})", name)
    engine().drop_table(name)


def create_view(name: str, queries: Mapping[str, str], *, comment: str) -> None:
    """Create a view; `queries` has its query for `postgresql` and for `sqlite`."""
    engine().create_view(name, queries, comment=comment)


def drop_view(name: str) -> None:
    """Drop a view that the migrations created."""
    require_gate(f"drop_view({name!r})")
    engine().drop_view(name)


def drop_columns(table: str, columns: Sequence[str]) -> None:
    """Drop those of the columns that the migrations created; in a table with rows hide them.

    `add_columns` of the same revision restores them.
    """
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
    """Drop a constraint that the migrations created."""
    require_gate(f"drop_constraint({table!r}, {name!r})", table)
    engine().drop_constraint(table, name)


def drop_index(*names: str) -> None:
    """Drop indexes that the migrations created, under a short lock on their tables."""
    require_gate(f"drop_index({', '.join(map(repr, names))})")
    engine().drop_index(*names)


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
    """Create the objects that migrations with a registry need from their first revision on."""
    engine().install_objects()


def remove_objects() -> None:
    """Drop the registry, and its schema if that is empty."""
    require_gate("remove_objects()")
    engine().remove_objects()
