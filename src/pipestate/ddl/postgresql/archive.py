"""Tables that go out of use without going away: moved aside, row by row the same, and back.

On PostgreSQL an archived table moves into the schema `pipestate_archive`, which frees its name and
those of its indexes; on SQLite it is renamed. The manifest there says what is archived, since when,
and what must be put back with it.
"""

from collections.abc import Mapping, Sequence

from pipestate.ddl import objects, sql
from pipestate.ddl.force import force_reason, forced
from pipestate.ddl.postgresql.batches import update_in_batches
from pipestate.ddl.postgresql.locks import lock_tables

SCHEMA = "pipestate_archive"
MANIFEST = f"{SCHEMA}.manifest"
ABSENT = '{"absent": true}'
CREATE_MANIFEST = f"""CREATE TABLE IF NOT EXISTS {MANIFEST} (
    kind VARCHAR(20) NOT NULL,
    name VARCHAR(200) NOT NULL,
    origin VARCHAR(63) NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition JSONB NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name)
)"""


def archive_table(table: str, *, when: str = "true") -> None:
    """Move a table into the archive, where it exists and `when` holds.

    Its outgoing foreign keys are dropped and written down: an archived one would still hold back
    deletes. What points at the table, or reads it, is refused: it would follow into the archive.
    """
    wanted = f"{sql.regclass(table)} IS NOT NULL AND ({when})"
    refuse_dependents(table, wanted)
    sql.refuse_when(
        f"{wanted} AND {sql.regclass(f'{SCHEMA}.{table}')} IS NOT NULL",
        f"{SCHEMA}.{table} exists already, from an earlier archive: look at it, drop it, then run the same again",
    )
    create_archive(wanted)
    lock_tables(table, when=wanted, also=parents(table))
    keys = f"FROM pg_constraint WHERE conrelid = {sql.regclass(table)} AND contype = 'f'"
    record = f"""INSERT INTO {MANIFEST} (kind, name, origin, definition)
SELECT 'table', relname, (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace), jsonb_build_object(
  'ours', {objects.is_ours("table", table)},
  'foreign_keys', coalesce((SELECT jsonb_object_agg(conname, pg_get_constraintdef(oid)) {keys}), '{{}}'),
  'parents', coalesce((SELECT jsonb_agg(DISTINCT confrelid::regclass::text) {keys}), '[]'))
FROM pg_class WHERE oid = {sql.regclass(table)}
ON CONFLICT (kind, name) DO UPDATE
SET origin = excluded.origin, archived_at = excluded.archived_at, definition = excluded.definition"""
    sql.do(
        f"""  IF NOT ({wanted}) THEN RETURN; END IF;
  EXECUTE {sql.dollar(record, "ddl")};
  SELECT string_agg(format('DROP CONSTRAINT %I', conname), ', ') INTO todo {keys};
  IF todo IS NOT NULL THEN EXECUTE {sql.literal(f"ALTER TABLE {sql.name(table)} ")} || todo; END IF;
  EXECUTE {sql.literal(f"ALTER TABLE {sql.name(table)} SET SCHEMA {SCHEMA}")};""",
        "  todo text;",
    )


def restore_table(table: str) -> None:
    """Bring a table back, with its foreign keys; rows whose parent is gone meanwhile are kept.

    A foreign key that such rows break comes back NOT VALID, with a warning: nothing is lost. The
    manifest goes on naming the table, so that a rerun after a kill knows it; `forget_archived` ends that.
    """
    sql.refuse_when(
        f"{sql.regclass(f'{SCHEMA}.{table}')} IS NOT NULL AND {sql.regclass(table)} IS NOT NULL",
        f"{table} exists again, so the archived one cannot come back: rename or drop it, then run the same again",
    )
    bring_back_table(table, forget=False)
    with sql.autocommit():
        sql.do(
            f"""  FOR rule IN SELECT conname FROM pg_constraint
      WHERE conrelid = {sql.regclass(table)} AND contype = 'f' AND NOT convalidated LOOP
    BEGIN
      EXECUTE format({sql.literal(f"ALTER TABLE {sql.name(table)} VALIDATE CONSTRAINT %I")}, rule);
    EXCEPTION WHEN foreign_key_violation THEN
      RAISE WARNING '% of {table} stays NOT VALID: some of its rows point at rows that are gone', rule;
    END;
  END LOOP;""",
            "  rule name;",
        )


def bring_back_table(table: str, *, forget: bool = True) -> None:
    """The move itself, in the revision's transaction; nothing happens where nothing is archived."""
    archived = (
        f"{sql.regclass(f'{SCHEMA}.{table}')} IS NOT NULL AND {sql.regclass(table)} IS NULL "
        f"AND {sql.regclass(MANIFEST)} IS NOT NULL"
    )
    entry = f"FROM {MANIFEST} WHERE kind = 'table' AND name = {sql.literal(table)}"
    lock_tables(
        f"{SCHEMA}.{table}",
        when=archived,
        also=f"SELECT jsonb_array_elements_text(definition -> 'parents') {entry}",
    )
    sql.do(
        f"""  IF NOT ({archived}) THEN RETURN; END IF;
  SELECT origin, definition -> 'foreign_keys', definition -> 'ours' INTO home, keys, ours {entry};
  IF home IS NULL THEN RETURN; END IF;
  EXECUTE format('ALTER TABLE {SCHEMA}.%I SET SCHEMA %I', {sql.literal(table)}, home);
  FOR rule IN SELECT key, value FROM jsonb_each_text(keys) LOOP
    EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', home, {sql.literal(table)}, rule.key,
      regexp_replace(rule.value, '( NOT VALID)?$', ' NOT VALID'));
  END LOOP;
  {f"DELETE {entry};" if forget else ""}
  IF ours THEN EXECUTE {sql.literal(objects.remember("table", table))}; END IF;""",
        "  home text;\n  keys jsonb;\n  ours boolean;\n  rule record;",
    )


def changed_since_archived(kind: str, name: str, time: str) -> str:
    """As an SQL condition: is that time after the archiving?"""
    entry = f"WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)}"
    return f"{time} > (SELECT archived_at FROM {MANIFEST} {entry})"


def refresh_archived(
    table: str, *, key: str, source: str, changed_at: str, derived: Mapping[str, str]
) -> None:
    """Bring an archived table up to date, before it returns, from what replaced it.

    For rows `s` of `source` that changed since, or that it does not know, its columns become what
    `derived` says; where that is NULL, the archived value stays. In batches, idempotent.
    """
    aside = f"{SCHEMA}.{table}"
    target, column, origin = sql.name(aside), sql.name(key), sql.name(source)
    changed = changed_since_archived("table", table, f"s.{sql.name(changed_at)}")
    known = f"s.{column} = {target}.{column}"
    update = f"UPDATE {target} SET %s FROM {origin} s WHERE {{range s}} AND s.current_stage IS NOT NULL AND {known} AND {changed}"
    insert = (
        f"INSERT INTO {target} ({column}, {', '.join(sql.name(name) for name in derived)}) "
        f"SELECT s.{column}, %s FROM {origin} s WHERE {{range s}} AND s.current_stage IS NOT NULL "
        f"AND NOT EXISTS (SELECT 1 FROM {target} WHERE {known}) ON CONFLICT DO NOTHING"
    )
    there = f"{sql.regclass(aside)} IS NOT NULL"
    # Columns of the application's own that must have a value: then a new row cannot be made up.
    more = (
        f"EXISTS (SELECT FROM pg_attribute WHERE attrelid = {sql.regclass(aside)} AND attnum > 0 "
        "AND NOT attisdropped AND attnotnull AND NOT atthasdef AND attidentity = '' "
        f"AND attname NOT IN ({sql.literals((key, *derived))}))"
    )
    expressions = ", ".join(
        f"({number}, {sql.literal(n)}, {sql.literal(e)})" for number, (n, e) in enumerate(derived.items())
    )
    rows = (
        f"FROM (VALUES {expressions}) AS x (n, name, expression) JOIN pg_attribute attribute "
        f"ON attrelid = {sql.regclass(aside)} AND attname = x.name"
    )
    value = sql.as_type_of("attribute", "x.expression")
    assigned = f"format('%1$I = coalesce(%2$s, {target}.%1$I)', name, {value})"
    with sql.autocommit():
        for template, item, when in ((update, assigned, there), (insert, value, f"{there} AND NOT {more}")):
            work = (
                f"SELECT replace({sql.literal(template)}, '%s', string_agg({item}, ', ' ORDER BY n)) {rows}"
            )
            update_in_batches(source, key, work, condition=when, computed=True)
        sql.do(
            f"""  IF {there} AND {more} THEN
    RAISE WARNING 'sites that came since have no row in {table}: it has columns that cannot be derived';
  END IF;"""
        )


def note_absence(kind: str, name: str) -> None:
    """Where there was nothing to archive, say so: then there is nothing to bring back either."""
    create_archive("true")
    sql.emit(
        f"INSERT INTO {MANIFEST} (kind, name, origin, definition) "
        f"VALUES ({sql.literals((kind, name))}, current_schema(), '{ABSENT}') ON CONFLICT DO NOTHING"
    )


def require_archived(kind: str, name: str) -> None:
    """Refuse to go back where the archive is gone, unless forced; then nothing comes back, and the ledger
    says why."""
    what = name if kind == "table" else f"the legacy columns of {name}"
    message = (
        f"the archive of {what} is gone (purged?), so this downgrade cannot bring it back. "
        "To go on and have it empty, or derived from the new columns: alembic -x force='reason' downgrade ..."
    )
    aside = f"{sql.regclass(f'{SCHEMA}.{name}_columns')} IS NOT NULL"
    if kind == "table":  # in the archive, or back already in a run that was killed
        aside = f"coalesce({sql.regclass(f'{SCHEMA}.{name}')}, {sql.regclass(name)}) IS NOT NULL"
    refused = sql.refusal(message)
    reason = force_reason()
    if reason is not None:
        refused = forced(f"downgrade without the archive of {what}: {reason}")
    sql.do(
        f"""  IF {sql.regclass(MANIFEST)} IS NOT NULL THEN
    SELECT definition ? 'absent' OR {aside} INTO known FROM {MANIFEST}
    WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)};
  END IF;
  IF known IS NOT TRUE THEN
    {refused}
  END IF;""",
        "  known boolean;",
    )


def forget_archived(kind: str, name: str) -> None:
    """The last word of a downgrade, in the transaction of the new version: it is not archived any more."""
    entry = f"WHERE kind = {sql.literal(kind)} AND name = {sql.literal(name)}"
    sql.do_when(f"{sql.regclass(MANIFEST)} IS NOT NULL", f"DELETE FROM {MANIFEST} {entry}")


def parents(table: str) -> str:
    """As a query: the tables that this one's foreign keys point at. Dropping those locks them too."""
    return (
        "SELECT confrelid::regclass::text FROM pg_constraint "
        f"WHERE conrelid = {sql.regclass(table)} AND contype = 'f'"
    )


def create_archive(when: str) -> None:
    """The schema and the manifest. Asked for only where missing: the right to create may be missing too."""
    sql.do_when(f"({when}) AND to_regnamespace('{SCHEMA}') IS NULL", f"CREATE SCHEMA {SCHEMA}")
    sql.do_when(f"({when}) AND {sql.regclass(MANIFEST)} IS NULL", CREATE_MANIFEST)


def drop_archive_if_empty() -> None:
    """At the end of `downgrade base`: leave no empty schema behind."""
    sql.do(
        f"""  IF {sql.regclass(MANIFEST)} IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM {MANIFEST})' INTO used;
  IF NOT used THEN
    DROP TABLE {MANIFEST};
    IF NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('{SCHEMA}')) THEN
      DROP SCHEMA {SCHEMA};
    END IF;
  END IF;""",
        "  used boolean;",
    )


def refuse_dependents(table: str, when: str, *, columns: Sequence[str] | None = None) -> None:
    """Views that read the table (or those columns), and foreign keys of others that point at it."""
    read = pointed_at = "true"
    if columns is not None:
        numbers = (
            f"ARRAY(SELECT attnum FROM pg_attribute WHERE attrelid = {sql.regclass(table)} "
            f"AND attname IN ({sql.literals(columns)}))"
        )
        read, pointed_at = f"d.refobjsubid = ANY ({numbers})", f"confkey && {numbers}"
    readers = (
        "SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d "
        "JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid "
        "JOIN pg_class v ON v.oid = r.ev_class "
        f"WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = {sql.regclass(table)} "
        f"AND v.oid <> {sql.regclass(table)} AND {read}"
    )
    pointers = (
        "SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint "
        f"WHERE contype = 'f' AND confrelid = {sql.regclass(table)} AND conrelid <> confrelid AND {pointed_at}"
    )
    found = f"(SELECT string_agg(what, ', ') FROM ({readers} UNION {pointers}) AS others (what))"
    sql.refuse_when(
        f"({when}) AND {found} IS NOT NULL",
        f"{table} cannot go while others depend on it: {{found}}. Drop or change them, then run the same again",
        found=found,
    )
