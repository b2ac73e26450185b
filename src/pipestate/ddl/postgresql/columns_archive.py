"""Columns that go out of use without losing a value: copied aside while a trigger keeps the copy true.

1. Under a short lock, an archive table `pipestate_archive.<table>_columns` and two triggers.
2. In batches and without a lock, the values; what is written meanwhile, the triggers bring along.
3. Under a short lock, the triggers and the columns go (`drop_archived_columns`).

Back: the columns are added again, the values return in batches, and then what hung on the columns
(indexes, constraints, NOT NULL) returns as well. On SQLite all of it is one transaction.
"""

from collections.abc import Sequence

from pipestate.ddl import sql
from pipestate.ddl.force import closed
from pipestate.ddl.postgresql import archive
from pipestate.ddl.postgresql.batches import update_in_batches
from pipestate.ddl.postgresql.locks import lock_tables

# The transaction time of the last write that a trigger saw; NULL for rows that were only copied.
WRITTEN_AT = "written_at"


def archive_columns(table: str, key: str, columns: Sequence[str]) -> None:
    """Copy the columns' values aside and keep the copy true. Run again, it goes on where it stopped."""
    there = _any_column(table, columns)
    archive.refuse_dependents(table, there, columns=columns)
    generated = (
        f"(SELECT string_agg(attname, ', ') FROM pg_attribute WHERE attrelid = {sql.regclass(table)} "
        f"AND attname IN ({sql.literals(columns)}) AND NOT attisdropped AND attgenerated <> '')"
    )
    sql.refuse_when(
        f"{generated} IS NOT NULL",
        f"{table} computes {{generated}} from other columns, which cannot be archived as values: drop that column, "
        "or its expression (ALTER COLUMN ... DROP EXPRESSION), then run the same again",
        generated=generated,
    )
    archive.create_archive(there)
    lock_tables(table, mode="SHARE ROW EXCLUSIVE", when=there)
    sql.do(_creation(table, key, columns), "  names text;\n  fresh text;\n  changed text;\n  known text;")
    with sql.autocommit():
        update_in_batches(table, key, _copy(table, key, columns), condition=there, computed=True)
        # Without statistics the planner would read all of it, under the lock, in `refuse_late_writes`.
        sql.do_when(there, f"ANALYZE {sql.name(copy_name(table))}")
        _refuse_untrue_copy(table, key, columns)


def refuse_late_writes(table: str, *, within: str, gate: str) -> None:
    """Under the lock: refuse where the triggers saw one of the columns written. An index answers."""
    runbook, _, phase = gate.partition("/")
    copy = sql.name(copy_name(table))
    late = f"SELECT count(*) FROM {copy} WHERE {WRITTEN_AT} > now() - interval {sql.literal(within)}"
    message = (
        f"the gate {gate} is closed: the legacy columns of {{n}} rows of {table} were written while they were being "
        f"archived. Stop what writes them; to see them: SELECT * FROM {copy} WHERE {WRITTEN_AT} IS NOT NULL"
    )
    sql.do(
        f"""  IF {sql.regclass(copy_name(table))} IS NULL THEN RETURN; END IF;
  EXECUTE {sql.literal(late)} INTO late;
  IF late > 0 THEN
    {closed(message, {"n": "late"}, runbook=runbook, phase=phase)}
  END IF;""",
        "  late bigint;",
    )


def drop_archived_columns(table: str, columns: Sequence[str]) -> None:
    """Drop the columns and the triggers, and write down what hung on them. The caller holds the lock."""
    sql.do(_removal(table, columns), "  todo text;")


def abandon_archived_columns(table: str) -> None:
    """Take back what an archiving that never came to its end has left: the triggers and the copy."""
    target, keep = sql.name(table), sql.name(f"{archive.SCHEMA}.keep_{table}_columns")
    begun = (
        f"EXISTS (SELECT FROM pg_trigger WHERE tgrelid = {sql.regclass(table)} "
        "AND tgname = 'pipestate_keep_inserted')"
    )
    lock_tables(table, when=begun)
    sql.do_when(
        begun,
        f"DROP TRIGGER IF EXISTS pipestate_keep_inserted ON {target}",
        f"DROP TRIGGER IF EXISTS pipestate_keep_updated ON {target}",
        f"DROP FUNCTION IF EXISTS {keep}()",
        f"DROP TABLE IF EXISTS {sql.name(copy_name(table))}",
    )


def copy_name(table: str) -> str:
    return f"{archive.SCHEMA}.{table}_columns"


def _any_column(table: str, columns: Sequence[str]) -> str:
    return (
        f"EXISTS (SELECT FROM pg_attribute WHERE attrelid = {sql.regclass(table)} "
        f"AND attname IN ({sql.literals(columns)}) AND NOT attisdropped)"
    )


def names_of(table: str, columns: Sequence[str], template: str, glue: str, also: str = "") -> str:
    """As an expression: the template, filled in for each of the columns that the table has."""
    return (
        f"(SELECT string_agg(format({sql.literal(template)}, attname), {sql.literal(glue)} ORDER BY attnum) "
        f"FROM pg_attribute WHERE attrelid = {sql.regclass(table)} AND NOT attisdropped "
        f"AND attname IN ({sql.literals(columns)}){also})"
    )


def _creation(table: str, key: str, columns: Sequence[str]) -> str:
    copy, keep = sql.name(copy_name(table)), sql.name(f"{archive.SCHEMA}.keep_{table}_columns")
    target, column = sql.name(table), sql.name(key)
    return f"""  names := {names_of(table, columns, "%1$I", ", ")};
  IF names IS NULL THEN RETURN; END IF;
  fresh := {names_of(table, columns, "NEW.%1$I", ", ")};
  changed := {names_of(table, columns, "%1$I = excluded.%1$I", ", ")};
  known := coalesce({names_of(table, columns, "NEW.%1$I IS NOT NULL", " OR ", " AND NOT atthasdef")}, 'true');
  IF {sql.regclass(copy_name(table))} IS NULL THEN
    EXECUTE 'CREATE TABLE {copy} AS SELECT {column}, ' || names
      || ', NULL::timestamptz AS {WRITTEN_AT} FROM {target} WITH NO DATA';
    ALTER TABLE {copy} ADD PRIMARY KEY ({column});
    CREATE INDEX ON {copy} ({WRITTEN_AT}) WHERE {WRITTEN_AT} IS NOT NULL;
  END IF;
  EXECUTE format($make$
    CREATE OR REPLACE FUNCTION {keep}() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $keep$
    BEGIN
      INSERT INTO {copy} ({column}, %1$s, {WRITTEN_AT})
      VALUES (NEW.{column}, %2$s, CASE WHEN TG_OP = 'UPDATE' OR %3$s THEN now() END)
      ON CONFLICT ({column}) DO UPDATE SET %4$s, {WRITTEN_AT} = excluded.{WRITTEN_AT};
      RETURN NULL;
    END $keep$ $make$, names, fresh, known, changed);
  IF NOT EXISTS (SELECT FROM pg_trigger
                 WHERE tgrelid = {sql.regclass(table)} AND tgname = 'pipestate_keep_inserted') THEN
    CREATE TRIGGER pipestate_keep_inserted AFTER INSERT ON {target}
      FOR EACH ROW EXECUTE FUNCTION {keep}();
    EXECUTE 'CREATE TRIGGER pipestate_keep_updated AFTER UPDATE ON {target} FOR EACH ROW '
      || 'WHEN (ROW(OLD.{column}, ' || replace(fresh, 'NEW.', 'OLD.') || ') IS DISTINCT FROM '
      || 'ROW(NEW.{column}, ' || fresh || ')) EXECUTE FUNCTION {keep}()';
    -- also for those who write as a replica does (a subscription, a bulk load)
    ALTER TABLE {target} ENABLE ALWAYS TRIGGER pipestate_keep_inserted, ENABLE ALWAYS TRIGGER pipestate_keep_updated;
  END IF;"""


def _copy(table: str, key: str, columns: Sequence[str]) -> str:
    copy, column = sql.name(copy_name(table)), sql.name(key)
    names = names_of(table, columns, "%1$I", ", ")
    return (
        f"SELECT format('INSERT INTO {copy} ({column}, %1$s) SELECT {column}, %1$s FROM {sql.name(table)} "
        f"WHERE {{range}} ON CONFLICT DO NOTHING', {names})"
    )


def _refuse_untrue_copy(table: str, key: str, columns: Sequence[str]) -> None:
    """The proof, before anything is dropped: every row is in the copy, with the values it has now."""
    copy, target, column = sql.name(copy_name(table)), sql.name(table), sql.name(key)
    differs = names_of(table, columns, "s.%1$I IS DISTINCT FROM a.%1$I", " OR ")
    sql.do(
        f"""  IF NOT {_any_column(table, columns)} THEN RETURN; END IF;
  EXECUTE 'SELECT count(*) FROM {target} s LEFT JOIN {copy} a USING ({column}) WHERE a.{column} IS NULL OR '
    || {differs} INTO bad;
  IF bad > 0 THEN
    {
            sql.refusal(
                f"{{n}} rows of {table} are not in {copy} as they are: something took its triggers away. "
                f"DROP TABLE {copy}, then run the same again",
                {"n": "bad"},
            )
        }
  END IF;""",
        "  bad bigint;",
    )
    sql.break_off_unless(f"NOT {_any_column(table, columns)} OR {sql.regclass(copy_name(table))} IS NOT NULL")


def _removal(table: str, columns: Sequence[str]) -> str:
    target, keep = sql.name(table), sql.name(f"{archive.SCHEMA}.keep_{table}_columns")
    these = f"attrelid = {sql.regclass(table)} AND attname IN ({sql.literals(columns)}) AND NOT attisdropped"
    numbers = f"ARRAY(SELECT attnum FROM pg_attribute WHERE {these})"
    return f"""  todo := {names_of(table, columns, "DROP COLUMN %1$I", ", ")};
  IF todo IS NULL THEN RETURN; END IF;
  INSERT INTO {archive.MANIFEST} (kind, name, origin, definition)
  SELECT 'columns', relname, (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace), jsonb_build_object(
    'comment', obj_description(c.oid, 'pg_class'),
    'columns', (SELECT jsonb_agg(jsonb_build_object(
        'name', attname, 'not_null', attnotnull,
        'type', format_type(atttypid, atttypmod) || CASE WHEN attcollation <> (
            SELECT typcollation FROM pg_type t WHERE t.oid = atttypid)
          THEN ' COLLATE ' || attcollation::regcollation ELSE '' END,
        'default', pg_get_expr(adbin, adrelid), 'comment', col_description(attrelid, attnum)) ORDER BY attnum)
      FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE {these}),
    'grants', coalesce((SELECT jsonb_agg(format('GRANT %s (%I) ON TABLE %s TO %s%s', privilege_type, attname, c.oid::regclass,
        CASE WHEN grantee = 0 THEN 'PUBLIC' ELSE grantee::regrole::text END,
        CASE WHEN is_grantable THEN ' WITH GRANT OPTION' ELSE '' END))
      FROM pg_attribute, aclexplode(attacl) WHERE {these}), '[]'),
    'constraints', coalesce((SELECT jsonb_object_agg(conname, pg_get_constraintdef(oid)) FROM pg_constraint
      WHERE conrelid = c.oid AND contype <> 'n' AND conkey && {numbers}), '{{}}'),
    'indexes', coalesce((SELECT jsonb_object_agg(indexrelid::regclass::text, pg_get_indexdef(indexrelid))
      FROM pg_index i WHERE indrelid = c.oid
        AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid AND conrelid = c.oid)
        AND EXISTS (SELECT FROM pg_depend WHERE objid = indexrelid AND refobjid = c.oid
                    AND refobjsubid = ANY ({numbers}))), '{{}}'))
  FROM pg_class c WHERE c.oid = {sql.regclass(table)}
  ON CONFLICT (kind, name) DO UPDATE
  SET origin = excluded.origin, archived_at = excluded.archived_at, definition = excluded.definition;
  DROP TRIGGER IF EXISTS pipestate_keep_inserted ON {target};
  DROP TRIGGER IF EXISTS pipestate_keep_updated ON {target};
  DROP FUNCTION IF EXISTS {keep}();
  EXECUTE {sql.literal(f"ALTER TABLE {target} ")} || todo;"""
