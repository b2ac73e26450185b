"""Archived columns on their way back: added again, filled in batches, and what hung on them returns."""

from collections.abc import Mapping, Sequence

from pipestate.ddl import sql
from pipestate.ddl.postgresql import archive
from pipestate.ddl.postgresql.batches import update_in_batches
from pipestate.ddl.postgresql.columns_archive import copy_name, names_of
from pipestate.ddl.postgresql.locks import lock_tables


def restore_columns(
    table: str, key: str, columns: Sequence[str], *, changed: str, derived: Mapping[str, str]
) -> None:
    """Bring the columns and their values back.

    `changed` says, of a row `s` whose archived values are `a`, whether it was written to since; then
    its values are `derived`, expressions over the same two. A row that was not there yet has changed.
    Rows in which somebody has written one of the columns since they came back are left alone.
    """
    there = f"{sql.regclass(copy_name(table))} IS NOT NULL AND {sql.regclass(archive.MANIFEST)} IS NOT NULL"
    archive.create_archive("true")
    lock_tables(table, when=there)
    sql.do(_addition(table, there), "  todo text;\n  old_comment text;")
    with sql.autocommit():
        update_in_batches(
            table,
            key,
            _return(table, key, columns, changed, derived),
            condition=there,
            computed=True,
            quiet=True,
        )
        # What an interrupted build left has the right name, and would be taken for the index.
        sql.execute_each(
            f"SELECT 'DROP INDEX CONCURRENTLY ' || key FROM jsonb_each_text({_hanging(table, 'indexes')}) "
            "WHERE EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass(key) AND NOT indisvalid) "
            f"AND {there}"
        )
        sql.execute_each(
            "SELECT regexp_replace(value, '^CREATE (UNIQUE )?INDEX ', 'CREATE \\1INDEX CONCURRENTLY ') "
            f"FROM jsonb_each_text({_hanging(table, 'indexes')}) WHERE to_regclass(key) IS NULL AND {there}"
        )
        sql.break_off_unless(
            f"NOT ({there}) OR NOT EXISTS (SELECT FROM jsonb_object_keys({_hanging(table, 'indexes')}) AS k "
            "LEFT JOIN pg_index ON indexrelid = to_regclass(k) WHERE indisvalid IS NOT TRUE)"
        )
    lock_tables(table, when=there)
    sql.do(_completion(table, there), "  rule record;")


def empty_copy(table: str, key: str) -> None:
    """In place of a copy that was purged: then every row counts as changed, and its values are derived."""
    copy, column = sql.name(copy_name(table)), sql.name(key)
    sql.do(
        f"""  IF {sql.regclass(archive.MANIFEST)} IS NULL OR {sql.regclass(copy_name(table))} IS NOT NULL THEN
    RETURN;
  END IF;
  SELECT string_agg(format('ADD COLUMN %I %s', c ->> 'name', c ->> 'type'), ', ') INTO todo
  FROM {archive.MANIFEST}, jsonb_array_elements(definition -> 'columns') AS x (c)
  WHERE kind = 'columns' AND name = {sql.literal(table)};
  IF todo IS NULL THEN RETURN; END IF;
  CREATE TABLE {copy} AS SELECT {column} FROM {sql.name(table)} WITH NO DATA;
  EXECUTE {sql.literal(f"ALTER TABLE {copy} ")} || todo;""",
        "  todo text;",
    )


def _entry(table: str) -> str:
    return f"FROM {archive.MANIFEST} WHERE kind = 'columns' AND name = {sql.literal(table)}"


def _hanging(table: str, what: str) -> str:
    return f"(SELECT definition -> '{what}' {_entry(table)})"


def _addition(table: str, there: str) -> str:
    """The columns, NULL at first, their defaults only for rows to come; and the comment that the table had.

    A default inside ADD COLUMN would fill the old rows: with one like now() none of them could be told
    from a row that somebody has written since.
    """
    return f"""  IF NOT ({there}) THEN RETURN; END IF;
  SELECT string_agg(format('ADD COLUMN IF NOT EXISTS %I %s', c ->> 'name', c ->> 'type'), ', ' ORDER BY n)
    || coalesce(', ' || string_agg(format('ALTER COLUMN %I SET DEFAULT %s', c ->> 'name', c ->> 'default'), ', ')
                FILTER (WHERE c ->> 'default' IS NOT NULL), ''), min(definition ->> 'comment')
  INTO todo, old_comment
  FROM {archive.MANIFEST}, jsonb_array_elements(definition -> 'columns') WITH ORDINALITY AS x (c, n)
  WHERE kind = 'columns' AND name = {sql.literal(table)};
  EXECUTE {sql.literal(f"ALTER TABLE {sql.name(table)} ")} || todo;
  EXECUTE format({sql.literal(f"COMMENT ON TABLE {sql.name(table)} IS %L")}, old_comment);"""


def _return(table: str, key: str, columns: Sequence[str], changed: str, derived: Mapping[str, str]) -> str:
    """An UPDATE of those rows in which every column is still empty, or what its default made it.

    `derived` sees the archived values as text (`a`), whatever their type; the result takes that type.
    """
    copy, target, column = sql.name(copy_name(table)), sql.name(table), sql.name(key)
    known = f"(SELECT attname FROM pg_attribute WHERE attrelid = {sql.regclass(copy_name(table))})"
    only = f" AND attname IN {known}"
    assignments = names_of(table, columns, "%1$I = v.%1$I", ", ", only)
    untouched = (
        f"(SELECT string_agg(format('(%1$s.%2$I IS NULL OR %1$s.%2$I = %3$s)', {sql.literal(target)}, attname, "
        f"coalesce(pg_get_expr(adbin, adrelid), 'NULL')), ' AND ') "
        f"FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum "
        f"WHERE attrelid = {sql.regclass(table)} AND attname IN ({sql.literals(columns)}){only})"
    )
    expressions = ", ".join(
        f"({sql.literal(n)}, {sql.literal(expression)})" for n, expression in derived.items()
    )
    values = (
        f"(SELECT string_agg(format('CASE WHEN %s THEN coalesce(%s, o.%I) ELSE o.%I END AS %I', "
        f"{sql.literal(changed)}, {sql.as_type_of('attribute', 'x.expression')}, name, name, name), ', ') "
        f"FROM (VALUES {expressions}) AS x (name, expression) JOIN pg_attribute attribute "
        f"ON attrelid = {sql.regclass(copy_name(table))} AND attname = x.name)"
    )
    as_text = f"(SELECT string_agg(format('o.%1$I::text AS %1$I', attname), ', ') FROM pg_attribute WHERE attrelid = {sql.regclass(copy_name(table))} AND attnum > 0)"
    return (
        f"SELECT format('UPDATE {target} SET %s FROM (SELECT s.{column} AS k, %s FROM {target} s "
        f"LEFT JOIN {copy} o USING ({column}) CROSS JOIN LATERAL (SELECT %s) a WHERE {{range s}}) v "
        f"WHERE v.k = {target}.{column} AND {{range}} AND %s', {assignments}, {values}, {as_text}, {untouched})"
    )


def _completion(table: str, there: str) -> str:
    target = sql.name(table)
    return f"""  IF NOT ({there}) THEN RETURN; END IF;
  FOR rule IN SELECT key, value FROM jsonb_each_text({_hanging(table, "constraints")}) LOOP
    IF NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = {sql.regclass(table)} AND conname = rule.key) THEN
      BEGIN
        EXECUTE format({sql.literal(f"ALTER TABLE {target} ADD CONSTRAINT %I %s")}, rule.key, rule.value);
      EXCEPTION WHEN integrity_constraint_violation THEN
        RAISE WARNING 'constraint % of {table} did not come back: rows written since break it', rule.key;
      END;
    END IF;
  END LOOP;
  FOR rule IN SELECT c ->> 'name' AS name, c ->> 'not_null' AS required, c ->> 'comment' AS comment
      FROM jsonb_array_elements({_hanging(table, "columns")}) AS x (c) LOOP
    IF rule.required::boolean THEN
      BEGIN
        EXECUTE format({sql.literal(f"ALTER TABLE {target} ALTER COLUMN %I SET NOT NULL")}, rule.name);
      EXCEPTION WHEN not_null_violation THEN
        RAISE WARNING '{table}.% stays nullable: rows written since have no value for it', rule.name;
      END;
    END IF;
    IF rule.comment IS NOT NULL THEN
      EXECUTE format({sql.literal(f"COMMENT ON COLUMN {target}.%I IS %L")}, rule.name, rule.comment);
    END IF;
  END LOOP;
  FOR rule IN SELECT value FROM jsonb_array_elements_text({_hanging(table, "grants")}) LOOP
    BEGIN
      EXECUTE rule.value;
    EXCEPTION WHEN undefined_object THEN
      RAISE WARNING 'not granted again, the role is gone: %', rule.value;
    END;
  END LOOP;
  DROP TABLE {sql.name(copy_name(table))};
  DELETE {_entry(table)};"""
