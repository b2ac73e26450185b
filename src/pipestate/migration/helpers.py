"""Helpers for revisions of any project (`pipestate.ddl`): changes that do not block writers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.sql.elements import ColumnClause

from pipestate.migration.adoption import Index
from pipestate.migration.engine import BATCH_SIZE, LOCK_PATIENCE_S, LOCK_TIMEOUT_MS, engine
from pipestate.migration.failure import MigrationError
from pipestate.migration.request import require_gate


def add_columns(addition: sa.Table) -> None:
    """Add the missing columns of `addition` to a table, in one ALTER under a short lock.

    Defaults must be constants: then PostgreSQL writes no row. An existing column with a type of another
    family is refused; one without its default gets it.
    """
    engine().add_columns(addition)


def add_checks(table: str, checks: Mapping[str, str]) -> None:
    """Add named CHECKs. Search for violating rows first: if there are any, the table stays unchanged."""
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
    """Add a named foreign key, unless the table already has one on that column to that target.

    `partitions` adds the statements for a partitioned table to scripts for psql; online they are detected.
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


# A column with its order, as `kind DESC NULLS LAST`, or only a name in double quotes.
_COLUMN = re.compile(
    r'(?P<name>[a-z_][\w$]*|"[^"]+")(?:\s+(?P<order>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?',
    re.IGNORECASE,
)
_CALL = re.compile(r"[\w.]+\(.*\)", re.DOTALL)


def create_index(*indexes: Index | sa.Index) -> None:
    """Ensure that the indexes exist, are valid and match their definitions; writers continue meanwhile.

    SQLAlchemy's own `Index` of a table is accepted: columns, expressions, `unique` and `postgresql_where`.
    """
    every = [index if isinstance(index, Index) else _read(index) for index in indexes]
    engine().create_index(
        *(
            replace(index, keys=normal_keys(index.keys), where=index.where and _unwrapped(index.where))
            for index in every
        )
    )


def normal_keys(keys: str) -> str:
    """Write keys as the server prints them, so that equal definitions compare as equal.

    >>> normal_keys("(kind), Created_At desc nulls first, ( lower(name) )")
    'kind, created_at DESC, lower(name)'
    >>> normal_keys("(a + b), id ASC")
    '(a + b), id'
    """
    return ", ".join(_normal_key(key) for key in _split(keys))


def _normal_key(key: str) -> str:
    inner = _unwrapped(key)
    column = _COLUMN.fullmatch(inner)
    if column is None:
        return inner if _CALL.fullmatch(inner) and _unwrapped(f"({inner})") == inner else key
    name = column["name"] if column["name"].startswith('"') else column["name"].lower()
    descends = (column["order"] or "").lower() == "desc"
    nulls = (column["nulls"] or "").lower()
    is_usual = nulls in ("", "first" if descends else "last")
    return f"{name}{' DESC' if descends else ''}{'' if is_usual else f' NULLS {nulls.upper()}'}"


def _split(keys: str) -> Iterator[str]:
    """Cut keys at the commas outside parentheses."""
    depth, begin = 0, 0
    for place, sign in enumerate(keys):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            yield keys[begin:place].strip()
            begin = place + 1
    yield keys[begin:].strip()


def _unwrapped(text: str) -> str:
    """Remove parentheses that enclose the whole text."""
    text = text.strip()
    while text.startswith("(") and _closes_at_the_end(text):
        text = text[1:-1].strip()
    return text


def _closes_at_the_end(text: str) -> bool:
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return place == len(text) - 1
    return False


def _read(index: sa.Index) -> Index:
    """Convert SQLAlchemy's index; refuse features that `Index` cannot express."""
    table, options = index.table, index.dialect_options["postgresql"]
    more = [f"postgresql_{name}" for name in sorted(options) if name != "where" and options[name]]
    fault = None
    if index.name is None:
        fault = "the index has no name: give it one"
    elif table is None:
        fault = "the index belongs to no table: take its columns from a table of SQLAlchemy, or use pipestate.ddl.Index"
    elif more:
        fault = f"{', '.join(more)} is not supported here: write CREATE INDEX CONCURRENTLY in an autocommit_block()"
    if fault or table is None:
        raise MigrationError(f"create_index({index.name!r}): {fault}")
    where = options["where"]
    return Index(
        str(index.name),
        table.fullname,
        ", ".join(_compiled(each) for each in index.expressions),
        unique=bool(index.unique),
        where=None if where is None else _compiled(where),
    )


def _compiled(expression: str | sa.ColumnElement[Any] | sa.TextClause) -> str:
    """Write an expression as SQLAlchemy's CREATE INDEX would."""
    if isinstance(expression, str):
        return expression
    grouped = expression if isinstance(expression, ColumnClause) else expression.self_group()
    options = {"include_table": False, "literal_binds": True}
    return str(grouped.compile(dialect=op.get_context().dialect, compile_kwargs=options))


def update_in_batches(
    table: str, key: str | Sequence[str], statement: str, *, condition: str = "true", size: int = BATCH_SIZE
) -> None:
    """Run `statement` once for each range of keys; each range is a separate, committed transaction.

    In it, `{range}` is replaced by the condition that selects the batch's keys. `{range s}` uses the alias
    `s`, for a statement that reads the table a second time. The statement must be repeatable: after a kill
    the ranges start from the beginning. `condition` says whether there are rows to change.
    """
    engine().update_in_batches(table, key, statement, condition=condition, size=size)


def lock_tables(
    *tables: str,
    mode: str = "ACCESS EXCLUSIVE",
    when: str = "true",
    also: str | None = None,
    timeout_ms: int = LOCK_TIMEOUT_MS,
    patience_s: float = LOCK_PATIENCE_S,
    in_server: bool = False,
) -> None:
    """Lock the existing tables until the end of the transaction; call it first in a transaction.

    `when` is an SQL condition: the lock is taken only if it holds. `also` is a query for more tables. The
    request waits briefly, lets the queue behind it pass and tries again; when patience ends it names the
    blocking session.
    """
    engine().lock_tables(
        *tables,
        mode=mode,
        when=when,
        also=also,
        timeout_ms=timeout_ms,
        patience_s=patience_s,
        in_server=in_server,
    )


def install_ledger() -> None:
    """Create the ledger if it is missing, or add missing parts to an older one.

    Repeating it changes nothing.
    """
    engine().install_ledger()


def remove_ledger() -> None:
    """Drop an empty ledger; keep one with rows, and report it.

    Migrations with a registry keep the registry until `remove_objects`.
    """
    require_gate("remove_ledger()")
    engine().remove_ledger()
