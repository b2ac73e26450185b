"""Looking at what is there before anything is done: shapes that can be adopted, and those that cannot."""

from collections.abc import Sequence
from dataclasses import dataclass

from alembic import op

from pipestate.ddl import sql, sqlite
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.locks import lock_tables


@dataclass(frozen=True, slots=True)
class Shape:
    """What a table of that name must have, where it exists, to be the one that we mean."""

    table: str
    key: str
    columns: tuple[str, ...]


def refuse_wrong_shapes(shapes: Sequence[Shape]) -> None:
    """A table of the right name that is another one: refused before the first change."""
    for shape in shapes:
        if sql.is_sqlite():
            _refuse_on_sqlite(shape)
        else:
            _refuse(shape)


def refuse_contracted(table: str, *, new: Sequence[str], old: Sequence[str], gone: str) -> None:
    """A database that is past the contract already has nothing to start from at the baseline."""
    message = (
        f"this database is already contracted: {table} has its counters, and neither the legacy columns nor "
        f"{gone} are left. Stamp it: alembic stamp 0001, then alembic upgrade head adds what is missing"
    )
    if sql.is_sqlite():
        if sql.is_offline() or not sqlite.has_table(table):
            return
        columns = set(sqlite.column_names(table))
        if columns >= set(new) and not columns & set(old) and not sqlite.has_table(gone):
            raise MigrationError(message)
        return
    sql.refuse_when(
        f"{sql.regclass(gone)} IS NULL AND (SELECT count(*) FILTER (WHERE attname IN ({sql.literals(new)})) = "
        f"{len(new)} AND count(*) FILTER (WHERE attname IN ({sql.literals(old)})) = 0 FROM pg_attribute "
        f"WHERE attrelid = {sql.regclass(table)} AND NOT attisdropped)",
        message,
    )


def set_default(table: str, column: str, expression: str) -> None:
    """A default for a nullable column of an adopted table, so that its writers go on (PostgreSQL)."""
    if sql.is_sqlite():
        return
    needs_one = (
        f"EXISTS (SELECT FROM pg_attribute WHERE attrelid = {sql.regclass(table)} "
        f"AND attname = {sql.literal(column)} AND NOT atthasdef AND NOT attnotnull)"
    )
    lock_tables(table, when=needs_one)
    sql.do_when(
        needs_one, f"ALTER TABLE {sql.name(table)} ALTER COLUMN {sql.name(column)} SET DEFAULT {expression}"
    )


def _refuse(shape: Shape) -> None:
    relation = sql.regclass(shape.table)
    sql.refuse_when(
        f"(SELECT relkind <> 'r' FROM pg_class WHERE oid = {relation})",
        f"{shape.table} exists, but is not a plain table (a view, or partitioned): rename it, "
        "or point the chain at another database or search_path",
    )
    missing = (
        f"(SELECT string_agg(name, ', ') FROM unnest(ARRAY[{sql.literals(shape.columns)}]) AS wanted (name) "
        f"WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = {relation} AND attname = wanted.name "
        "AND NOT attisdropped))"
    )
    sql.refuse_when(
        f"{relation} IS NOT NULL AND {missing} IS NOT NULL",
        f"{shape.table} exists, but without {{missing}}: it is another table of that name. Rename it, "
        "or point the chain at another database or search_path",
        missing=missing,
    )
    unique = (
        f"EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] "
        f"WHERE indrelid = {relation} AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 "
        f"AND attname = {sql.literal(shape.key)})"
    )
    sql.refuse_when(
        f"{relation} IS NOT NULL AND NOT {unique}",
        f"{shape.table} exists, but its {shape.key} is not unique: add a primary key or a unique index on it, "
        "then run the same again",
    )
    sql.do(
        f"""  IF {relation} IS NULL THEN RETURN; END IF;
  EXECUTE {sql.literal(f"SELECT EXISTS (SELECT FROM {sql.name(shape.table)} WHERE {sql.name(shape.key)} IS NULL)")} INTO nameless;
  IF nameless THEN
    {sql.refusal(f"{shape.table} has rows without a {shape.key}, by which the chain finds rows: give them one or delete them, then run the same again")}
  END IF;""",
        "  nameless boolean;",
    )


def _refuse_on_sqlite(shape: Shape) -> None:
    if sql.is_offline():
        return
    query = "SELECT type FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')"
    kind = op.get_bind().exec_driver_sql(query, (shape.table,)).scalar()
    if kind is None:
        return
    if kind != "table":
        raise MigrationError(f"{shape.table} exists, but is not a plain table (a view): rename it")
    missing = [column for column in shape.columns if column not in sqlite.column_names(shape.table)]
    if missing:
        raise MigrationError(
            f"{shape.table} exists, but without {', '.join(missing)}: it is another table of that name. "
            "Rename it, or point the chain at another database"
        )
    inspector = sqlite.inspector()
    unique: list[Sequence[str | None]] = [inspector.get_pk_constraint(shape.table)["constrained_columns"]]
    unique += [constraint["column_names"] for constraint in inspector.get_unique_constraints(shape.table)]
    unique += [index["column_names"] for index in inspector.get_indexes(shape.table) if index["unique"]]
    if [shape.key] not in unique:
        raise MigrationError(
            f"{shape.table} exists, but its {shape.key} is not unique: add a primary key or a unique index "
            "on it, then run the same again"
        )
