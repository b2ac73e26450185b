"""Tables and views: created where absent, left alone where present, dropped only if ours and empty."""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from pipestate.ddl import objects, sql
from pipestate.ddl.contract_parts import GoingTable
from pipestate.ddl.definitions import Index, KeyOf, keys_of_others
from pipestate.ddl.postgresql import archive
from pipestate.ddl.postgresql.locks import lock_tables
from pipestate.ddl.postgresql.names import MANIFEST


def create_table(table: sa.Table, *indexes: Index) -> None:
    """Create the table with its indexes; bring it back where a downgrade put it into the archive.

    A table that is there already is left as it is: adoption is the business of the helpers that
    add columns, constraints and indexes.
    """
    archive.bring_back_table(table.name)
    statement = sql.dollar(str(CreateTable(table).compile(dialect=sql.POSTGRESQL)).strip(), "ddl")
    for column in keys_of_others(table):
        source, _, attribute = column.partition(".")
        statement = (
            f"replace({statement}, {sql.literal(KeyOf(column).get_col_spec())}, "
            f"(SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
            f"WHERE attrelid = {sql.regclass(source)} AND attname = {sql.literal(attribute)}))"
        )
    rest = [index.statement() for index in indexes] + [objects.remember("table", table.name)]
    rest += [objects.remember("index", index.name) for index in indexes]
    body = "\n".join(f"  EXECUTE {sql.dollar(text, 'ddl')};" for text in rest)
    sql.do(
        f"IF {sql.regclass(table.name)} IS NULL THEN\n  EXECUTE {statement};\n{body}\nEND IF;",
        why=f"create {table.name}",
    )


def drop_table(name: str) -> None:
    """Drop a table of ours that is empty; one with rows goes into the archive, and comes back."""
    ours = objects.is_ours("table", name)
    lock_tables(name, when=ours, also=archive.parents(name))
    sql.do(
        f"""  PERFORM set_config('pipestate.filled', 'false', true);
  IF {sql.regclass(name)} IS NOT NULL AND {ours} THEN
    EXECUTE {sql.literal(f"SELECT EXISTS (SELECT FROM {sql.name(name)})")} INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;""",
        "  filled boolean;",
    )
    archive.archive_table(GoingTable(name), when="current_setting('pipestate.filled')::boolean")
    sql.do_when(ours, f"DROP TABLE IF EXISTS {sql.name(name)}")
    sql.emit(objects.forget("table", name))


def create_view(name: str, queries: Mapping[str, str], *, comment: str) -> None:
    create = f"CREATE VIEW {sql.name(name)} AS {queries['postgresql']}"
    sql.do_when(f"{sql.regclass(name)} IS NULL", create, objects.remember("view", name))
    sql.do_when(objects.is_ours("view", name), f"COMMENT ON VIEW {sql.name(name)} IS {sql.literal(comment)}")


def drop_view(name: str) -> None:
    sql.do_when(objects.is_ours("view", name), f"DROP VIEW IF EXISTS {sql.name(name)}")
    sql.emit(objects.forget("view", name))


def analyze_table(table: str) -> None:
    with sql.autocommit():
        sql.execute_when(f"ANALYZE {sql.name(table)}", f"{sql.regclass(table)} IS NOT NULL")


def replace_comment(table: str, comment: str, *, revision: str) -> None:
    values = sql.literals(("comment", table, revision))
    said = f"obj_description({sql.regclass(table)}, 'pg_class')"
    before = (
        f"INSERT INTO {MANIFEST} (kind, name, revision, origin, definition) "
        f"SELECT {values}, coalesce(current_schema(), ''), jsonb_build_object('comment', {said}) "
        f"WHERE {said} IS DISTINCT FROM {sql.literal(comment)} "
        "ON CONFLICT (kind, name, revision) DO UPDATE SET definition = excluded.definition"
    )
    now = f"COMMENT ON TABLE {sql.name(table)} IS {sql.literal(comment)}"
    archive.create_archive("", "true", before, now)


def restore_comment(table: str, comment: str, *, revision: str) -> None:
    entry = (
        f"FROM {MANIFEST} WHERE kind = 'comment' AND name = {sql.literal(table)} "
        f"AND revision = {sql.literal(revision)}"
    )
    sql.do(
        f"""  IF {sql.regclass(MANIFEST)} IS NOT NULL THEN
    SELECT definition ->> 'comment' INTO before {entry};
    DELETE {entry};
  END IF;
  IF obj_description({sql.regclass(table)}, 'pg_class') = {sql.literal(comment)} THEN
    EXECUTE format({sql.literal(f"COMMENT ON TABLE {sql.name(table)} IS %L")}, before);
  END IF;""",
        "  before text;",
        why=f"what was said about {table}",
    )
