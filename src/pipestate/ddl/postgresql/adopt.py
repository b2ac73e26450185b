"""Looking at what is there before anything is done: shapes that can be adopted, and those that cannot."""

from collections.abc import Sequence

from pipestate.ddl import sql
from pipestate.ddl.definitions import Shape
from pipestate.ddl.postgresql.locks import lock_tables
from pipestate.ddl.postgresql.partitions import is_partitioned, partitioned_by_others


def refuse_wrong_shapes(shapes: Sequence[Shape]) -> None:
    """A table of the right name that is another one: refused before the first change."""
    for shape in shapes:
        _refuse(shape)


def refuse_state(
    table: str, *, having: Sequence[str], lacking: Sequence[str], gone: str, message: str
) -> None:
    """Refuse a database whose table has all of these columns and none of those, and where `gone` is gone."""
    sql.refuse_when(
        f"{sql.regclass(gone)} IS NULL AND (SELECT count(*) FILTER (WHERE attname IN ({sql.literals(having)})) = "
        f"{len(having)} AND count(*) FILTER (WHERE attname IN ({sql.literals(lacking)})) = 0 FROM pg_attribute "
        f"WHERE attrelid = {sql.regclass(table)} AND NOT attisdropped)",
        message,
    )


def set_default(table: str, column: str, expression: str) -> None:
    """A default for a nullable column of an adopted table, so that its writers go on (PostgreSQL)."""
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
    kinds, other = ("'r', 'p'", "no table") if shape.partitions else ("'r'", "not a plain table")
    sql.refuse_when(
        f"(SELECT relkind NOT IN ({kinds}) FROM pg_class WHERE oid = {relation})",
        f"{shape.table} exists, but is {other} (a view{'' if shape.partitions else ', or partitioned'}): rename it, "
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
    if shape.times:
        _refuse_other_times(shape)
    alone = "indnkeyatts = 1"
    if shape.partitions:  # the key that rows are partitioned by must be in every unique index
        alone = f"(indnkeyatts = 1 OR {is_partitioned(shape.table)})"
    unique = (
        f"EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] "
        f"WHERE indrelid = {relation} AND indisunique AND indisvalid AND indpred IS NULL AND {alone} "
        f"AND attname = {sql.literal(shape.key)})"
    )
    sql.refuse_when(
        f"{relation} IS NOT NULL AND NOT {unique}",
        f"{shape.table} exists, but its {shape.key} is not unique: add a primary key or a unique index on it, "
        "then run the same again",
    )
    if shape.unique:
        by_others = partitioned_by_others(shape.table, shape.unique)
        sql.refuse_when(
            f"{by_others} IS NOT NULL",
            f"{shape.table} is partitioned by {{others}}, so PostgreSQL cannot keep ({', '.join(shape.unique)}) unique "
            "over all of its partitions: partition it by these columns, or by one of them, then run the same again",
            others=by_others,
        )
    sql.do(
        f"""  IF {relation} IS NULL THEN RETURN; END IF;
  EXECUTE {sql.literal(f"SELECT EXISTS (SELECT FROM {sql.name(shape.table)} WHERE {sql.name(shape.key)} IS NULL)")} INTO nameless;
  IF nameless THEN
    {sql.refusal(f"{shape.table} has rows without a {shape.key}, by which the chain finds rows: give them one or delete them, then run the same again")}
  END IF;""",
        "  nameless boolean;",
    )


def _refuse_other_times(shape: Shape) -> None:
    """Refuse times of a type that the server does not compare with one; which zone a text means, we cannot know."""
    others = (
        f"FROM pg_attribute JOIN pg_type t ON t.oid = atttypid WHERE attrelid = {sql.regclass(shape.table)} "
        f"AND attname IN ({sql.literals(shape.times)}) AND NOT attisdropped AND t.typcategory <> 'D'"
    )
    column = sql.name(shape.times[0])
    sql.refuse_when(
        f"EXISTS (SELECT {others})",
        f"{shape.table} exists, but the type {{others}}, and the chain compares them with the clock: give them a time's, "
        f"as in ALTER TABLE {sql.name(shape.table)} ALTER COLUMN {column} TYPE timestamptz USING {column}::timestamptz, "
        "then run the same again",
        others="(SELECT string_agg(format('of %s is %s', attname, format_type(atttypid, NULL)), ', ' ORDER BY attnum) "
        f"{others})",
    )
