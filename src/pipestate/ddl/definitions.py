"""What a revision writes down, for either engine: tables, indexes, the shape of what may be adopted."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import UserDefinedType

from pipestate.ddl import sql


@dataclass(frozen=True, slots=True)
class Index:
    """An index, with its keys and predicate spelt as PostgreSQL prints them, casts apart: `(a, b DESC)`.

    Where the table lacks one of the columns in `needs`, or has one of another type than `types`, there is no index.
    Types are PostgreSQL's: an index that names some is for PostgreSQL alone.

    `partitions` puts into scripts for psql what a partitioned table needs; online it is seen.
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
        """Name it with its schema: an index lives in the schema of its table."""
        schema, dot, _ = self.table.rpartition(".")
        return f"{schema}{dot}{self.name}"

    def definition(self) -> str:
        predicate = f" WHERE ({self.where})" if self.where else ""
        return f"({self.keys}){predicate}"

    def statement(self, concurrently: bool = False, name: str | None = None) -> str:
        """Write the CREATE INDEX; `name` is another name than its own."""
        unique = "UNIQUE " if self.unique else ""
        how = "CONCURRENTLY " if concurrently else ""
        target = f"{sql.name(name or self.name)} ON {sql.name(self.table)}"
        return f"CREATE {unique}INDEX {how}{target} {self.definition()}"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a table of that name must have, where it exists, to be the one that we mean.

    With `partitions` it may be partitioned: its key is then the first column of a unique index. `unique` names the
    columns that the chain will make unique together: PostgreSQL does so only where it is partitioned by these alone.
    `times` names columns that checks compare with the clock: on PostgreSQL a text cannot be.
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
    """List the columns of other tables whose types this table takes over."""
    return [column.type.column for column in table.columns if isinstance(column.type, KeyOf)]


def table_of(name: str, *parts: sa.Column[Any] | sa.Constraint) -> sa.Table:
    """Make a table as a revision writes it down: literal, in a MetaData of its own."""
    metadata = sa.MetaData()
    for part in parts:
        if isinstance(part, sa.ForeignKeyConstraint):
            for element in part.elements:
                target, _, column = element.target_fullname.rpartition(".")
                sa.Table(target, metadata, sa.Column(column), keep_existing=True)
    return sa.Table(name, metadata, *parts)
