"""Tables and views on PostgreSQL: adopted or created, changed in batches, dropped only if the chain created them."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from pipestate.migration import objects, sql
from pipestate.migration.definitions import Index, Shape
from pipestate.migration.postgresql import calls
from pipestate.migration.postgresql.locks import patiently
from pipestate.migration.postgresql.soft_drop import restore_dropped_table
from pipestate.migration.run import current_run

BATCH_SIZE = 2000


def refuse_wrong_shapes(shapes: Sequence[Shape]) -> None:
    """Refuse, before the first change, a table of the right name with another shape."""
    for shape in shapes:
        options: dict[str, calls.Argument] = {}
        if shape.partitions:
            options["may_be_partitioned"] = True
        if shape.unique:
            options["the_unique"] = shape.unique
        if shape.times:
            options["the_times"] = shape.times
        calls.call("require_shape", sql.name(shape.table), shape.key, shape.columns, **options)


def refuse_state(
    table: str, *, having: Sequence[str], lacking: Sequence[str], gone: str, message: str
) -> None:
    """Refuse a database if the table has all `having` columns, no `lacking` column, and `gone` is absent."""
    calls.refuse_when(
        f"{sql.regclass(gone)} IS NULL AND (SELECT count(*) FILTER (WHERE attname IN ({sql.literals(having)})) = "
        f"{len(having)} AND count(*) FILTER (WHERE attname IN ({sql.literals(lacking)})) = 0 FROM pg_catalog.pg_attribute "
        f"WHERE attrelid = {sql.regclass(table)} AND NOT attisdropped)",
        message,
    )


def update_in_batches(
    table: str, key: str | Sequence[str], statement: str, *, condition: str = "true", size: int = BATCH_SIZE
) -> None:
    keys = [key] if isinstance(key, str) else list(key)
    only_where: dict[str, calls.Argument] = {} if condition == "true" else {"the_condition": condition}
    with sql.autocommit():
        calls.call("update_in_batches", sql.name(table), keys, size, statement, **only_where)


def create_table(table: sa.Table, *indexes: Index) -> None:
    """Create the table with its indexes; restore it if a downgrade put it into the archive.

    An existing table is left as it is: the helpers that add columns, constraints and indexes adopt it.
    """
    restore_dropped_table(table.name, current_run().revision)
    statement = str(CreateTable(table).compile(dialect=sql.POSTGRESQL)).strip()
    lines = (line.replace("\t", "  ").rstrip() for line in statement.splitlines())
    options = calls.registered()
    if indexes:
        options["the_indexes"] = {index.name: index.statement() for index in indexes}
    calls.call("create_table", sql.name(table.name), "\n".join(lines), **options)


def drop_table(name: str) -> None:
    """Drop an empty table of the chain; archive one with rows, so that it can be restored."""
    with patiently(name) as patience:
        calls.call(
            "drop_table", sql.name(name), name, current_run().revision, **calls.unregistered(), **patience
        )


def create_view(name: str, queries: Mapping[str, str], *, comment: str) -> None:
    create = f"CREATE VIEW {sql.name(name)} AS {queries['postgresql']}"
    calls.run_when(f"{sql.regclass(name)} IS NULL", create, objects.remember("view", name))
    calls.run_when(calls.is_ours("view", name), f"COMMENT ON VIEW {sql.name(name)} IS {sql.literal(comment)}")


def drop_view(name: str) -> None:
    calls.run_when(calls.is_ours("view", name), f"DROP VIEW IF EXISTS {sql.name(name)}")
    sql.emit(objects.forget("view", name))


def analyze_table(table: str) -> None:
    with sql.autocommit():
        sql.execute_when(f"ANALYZE {sql.name(table)}", f"{sql.regclass(table)} IS NOT NULL")


def replace_comment(table: str, comment: str, *, revision: str) -> None:
    said = f"obj_description({sql.regclass(table)}, 'pg_class')"
    sql.emit(
        "INSERT INTO pipestate.soft_drop (revision, kind, schema_name, table_name, name, removed, state) "
        f"SELECT {sql.literal(revision)}, 'comment', '', {sql.literals((table, table))}, "
        f"jsonb_build_object('comment', {said}), 'absent' WHERE {said} IS DISTINCT FROM {sql.literal(comment)}"
    )
    sql.emit(f"COMMENT ON TABLE {sql.name(table)} IS {sql.literal(comment)}")


def restore_comment(table: str, comment: str, *, revision: str) -> None:
    entry = f"pipestate.soft_drop WHERE kind = 'comment' AND name = {sql.literal(table)} AND revision = {sql.literal(revision)}"
    sql.do(
        f"""  SELECT removed ->> 'comment' INTO before FROM {entry} ORDER BY id DESC LIMIT 1;
  DELETE FROM {entry};
  IF obj_description({sql.regclass(table)}, 'pg_class') = {sql.literal(comment)} THEN
    EXECUTE format({sql.literal(f"COMMENT ON TABLE {sql.name(table)} IS %L")}, before);
  END IF;""",
        "  before text;",
        why=f"what was said about {table}",
    )
