"""Columns, as revisions add, complete and drop them."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from pipestate.ddl.engine import engine
from pipestate.ddl.mark import require_gate


def add_columns(addition: sa.Table) -> None:
    """Add to a table those of `addition`'s columns that it lacks, in one ALTER under a short lock.

    Defaults must be constants: then PostgreSQL writes no row. A column that is there with a type of
    another family is refused; one that is there without its default gets it.
    """
    engine().add_columns(addition)


def drop_columns(table: str, columns: Sequence[str]) -> None:
    """Drop those of the columns that the chain created, in one ALTER."""
    require_gate(f"drop_columns({table!r}, ...)", table)
    engine().drop_columns(table, columns)


def use_timestamptz(table: str, columns: Sequence[str], *, indexes: Sequence[str] = ()) -> None:
    """Turn naive timestamps into timestamptz, reading them in `-x naive-timezone` (UTC by default).

    With UTC nothing is rewritten. An index on the column would be rebuilt under the lock, so those
    that are named are dropped first: create them again, concurrently, afterwards. Another zone makes
    PostgreSQL rewrite the table under the lock.
    """
    engine().use_timestamptz(table, columns, indexes=indexes)


def require_not_null(table: str, key: str, repairs: Mapping[str, str]) -> None:
    """Make columns NOT NULL; where one holds NULL, its repair expression first, in batches.

    A column whose repair is itself has none: rows with a NULL there are named, and nothing changes.
    """
    engine().require_not_null(table, key, repairs)


def set_default(table: str, column: str, expression: str) -> None:
    """Give a nullable column of an adopted table a default, so that its writers go on (PostgreSQL)."""
    engine().set_default(table, column, expression)


def comment_column(table: str, column: str, comment: str) -> None:
    """Comment on a column (PostgreSQL)."""
    engine().comment_column(table, column, comment)
