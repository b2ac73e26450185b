"""Definitions that a revision writes for either engine: tables, indexes, shapes to adopt, and contracts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import UserDefinedType

from pipestate.migration import sql

# Defaults of `update_in_batches` and `lock_tables`.
BATCH_SIZE = 2000
LOCK_TIMEOUT_MS = 200
LOCK_PATIENCE_S = 60.0


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
    names columns that the chain will make unique together. PostgreSQL does this only for a table that is
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


# Objects that a contract drops: whole tables, and columns of remaining tables.


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """Rows of a dropped table, derived on its restore from the table that replaced it.

    `columns` are expressions over a row `s` of `source`, which has the same key. Rows `s` are derived only if
    `where` holds.
    """

    source: str
    columns: Mapping[str, str]
    where: str = "true"


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table that a contract drops. `changed_at` is a column of the table that `derived` reads."""

    table: str
    key: tuple[str, ...] = ()
    derived: DerivedRows | None = None
    changed_at: str | None = None
    revision: str = ""

    @property
    def kind(self) -> str:
        return "table"

    @property
    def described(self) -> str:
        return self.table


@dataclass(frozen=True, slots=True)
class DroppedColumns:
    """Columns that a contract drops. `derived` are expressions over a row `s` and its hidden values `a`."""

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    changed_at: str | None = None
    revision: str = ""

    @property
    def kind(self) -> str:
        return "columns"

    @property
    def described(self) -> str:
        return f"the columns {', '.join(self.columns)} of {self.table}"


@dataclass(frozen=True, slots=True)
class Drop:
    """Everything that one revision drops behind one gate."""

    revision: str
    gate: str
    tables: tuple[DroppedTable, ...] = ()
    columns: tuple[DroppedColumns, ...] = ()
    triggers: tuple[str, ...] = ()
    may_be_gone: bool = False
    keep: bool = True
    has_backup: bool = False

    @property
    def parts(self) -> tuple[DroppedTable | DroppedColumns, ...]:
        return (*self.tables, *self.columns)
