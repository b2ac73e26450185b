"""Tables that go out of use without going away: moved aside, row by row the same, and back.

An archived table moves into the schema `pipestate_archive` (of `sales.orders`: `pipestate_archive_sales`), which
frees its name and those of its indexes. The manifest there says what is archived, since when, under which name,
and what must be put back with it.
"""

from collections.abc import Sequence
from contextlib import nullcontext

from pipestate.ddl import objects, sql
from pipestate.ddl.contract_parts import GoingColumns, GoingTable
from pipestate.ddl.force import force_statement
from pipestate.ddl.postgresql import names
from pipestate.ddl.postgresql.batches import run_batches
from pipestate.ddl.postgresql.block import Constants, Expression, run_block
from pipestate.ddl.postgresql.locks import lock_tables
from pipestate.ddl.postgresql.names import ARCHIVE, MANIFEST
from pipestate.ddl.transaction import may_commit

CREATE_MANIFEST = f"""CREATE TABLE IF NOT EXISTS {MANIFEST} (
    kind text NOT NULL,
    name text NOT NULL,
    revision text DEFAULT '' NOT NULL,
    origin text NOT NULL,
    aside text,
    archived_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name, revision)
)"""
NOT_BACK = "{what}: not back, and still in the archive. See what went wrong above, then run the same again"


def refuse_unfit_table(
    going: GoingTable, *, must_exist: bool = False, others: Sequence[str] = (), when: str = "true"
) -> None:
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_columns": Expression("text[]", "NULL"),
        "the_revision": going.revision,
        "must_exist": must_exist,
        "the_others": [sql.name(other) for other in others],
        "applies": Expression("boolean", when),
    }
    run_block("refuse_unfit", constants, why=f"what could not come back as it was: {going.table}")


def keep_baseline(going: GoingTable) -> None:
    if going.derived is None or going.changed_at is None:
        return
    create_archive(going.table, f"{sql.regclass(going.table)} IS NOT NULL")
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_key": going.key,
        "the_source": sql.name(going.derived.source),
        "the_changed_at": going.changed_at,
        "the_baseline": names.baseline(going),
    }
    run_block("keep_baseline", constants, why=f"when each row of {going.derived.source} was changed last")


def archive_table(going: GoingTable, *, when: str = "true") -> None:
    """Move it aside where `when` holds, an SQL condition."""
    there = f"{sql.regclass(going.table)} IS NOT NULL AND ({when})"
    refuse_unfit_table(going, when=when)
    create_archive(going.table, there)
    lock_tables(going.table, when=there, also=parents(going.table))
    constants: Constants = {
        "the_table": sql.name(going.table),
        "the_aside": names.aside(going.table),
        "the_archive": sql.identifier(names.archive_of(going.table)),
        "the_name": going.table,
        "is_ours": Expression("boolean", objects.is_ours("table", going.table)),
        "the_baseline": names.baseline(going),
        "applies": Expression("boolean", when),
    }
    run_block("archive_table", constants, why=f"{going.table} into the archive")


def restore_table(going: GoingTable) -> None:
    """Bring the table up to date, then back; the manifest goes on naming it, so that a rerun knows it."""
    _refresh(going)
    bring_back_table(going.table, forget=False)
    with sql.autocommit() if may_commit() else nullcontext():
        run_block(
            "validate_keys",
            {"the_name": going.table},
            why=f"the foreign keys of {going.table} that were valid",
        )
    if baseline := names.baseline(going):
        is_back = f"to_regclass({sql.literal(names.aside(going.table))}) IS NULL"
        sql.do_when(is_back, f"DROP TABLE IF EXISTS {baseline}")


def bring_back_table(table: str, *, forget: bool = True) -> None:
    """Move it, in the revision's transaction; nothing happens where nothing is archived."""
    aside = names.aside(table)
    archived = f"to_regclass({sql.literal(aside)}) IS NOT NULL AND {sql.regclass(MANIFEST)} IS NOT NULL"
    entry = f"FROM {MANIFEST} WHERE kind = 'table' AND name = {sql.literal(table)}"
    also = f"SELECT jsonb_array_elements_text(definition -> 'parents') {entry}"
    lock_tables(when=archived, also=f"VALUES ({sql.literal(aside)}) UNION {also}")
    constants: Constants = {
        "the_table": sql.name(table),
        "the_aside": aside,
        "the_name": table,
        "forget": forget,
        "remember": objects.remember("table", table),
    }
    run_block("return_table", constants, why=f"{table} out of the archive, where it is there")


def _refresh(going: GoingTable) -> None:
    if going.derived is None:
        return
    constants: Constants = {
        "the_aside": names.aside(going.table),
        "the_key": going.key,
        "the_source": sql.name(going.derived.source),
        "the_where": going.derived.where,
        "the_baseline": names.baseline(going),
        "the_changed_at": going.changed_at,
        "the_derived": going.derived.columns,
    }
    for missing in (False, True):
        what = "rows that came since" if missing else "rows that changed since"
        run_block("refresh_table", {**constants, "insert_missing": missing}, why=f"{going.table}: {what}")
        run_batches(going.derived.source, going.key)


def note_absence(going: GoingTable | GoingColumns) -> None:
    noted = (
        f"INSERT INTO {MANIFEST} (kind, name, revision, origin, definition) "
        f"VALUES ({sql.literals(_entry(going))}, coalesce(current_schema(), ''), '{{\"absent\": true}}') "
        "ON CONFLICT DO NOTHING"
    )
    create_archive("", "true", noted)


def require_archived(going: GoingTable | GoingColumns) -> None:
    constants: Constants = {
        "the_kind": going.kind,
        "the_what": going.described,
        "the_table": sql.name(going.table),
        "the_name": going.table,
        "the_revision": _entry(going)[2],
        "the_aside": names.aside(going.table) if isinstance(going, GoingTable) else names.copy(going),
        "force_record": force_statement(f"downgrade without the archive of {going.described}"),
    }
    run_block("require_archived", constants, why=f"the archive of {going.described} must be there")


def forget_archived(going: GoingTable | GoingColumns) -> None:
    """Take it out of the manifest; refuse where it is still in the archive, in a psql that went on after an error."""
    kind, name, revision = (sql.literal(value) for value in _entry(going))
    entry = f"WHERE kind = {kind} AND name = {name} AND revision = {revision}"
    left = sql.refusal(NOT_BACK.replace("{what}", going.described))
    sql.do(
        f"""  IF {sql.regclass(MANIFEST)} IS NULL THEN RETURN; END IF;
  IF EXISTS (SELECT FROM {MANIFEST} {entry} AND to_regclass(aside) IS NOT NULL) THEN
    {left}
  END IF;
  DELETE FROM {MANIFEST} {entry};"""
    )


def _entry(going: GoingTable | GoingColumns) -> tuple[str, str, str]:
    """Return its key in the manifest: a table can be archived only once, its columns once for each revision."""
    return going.kind, going.table, going.revision if isinstance(going, GoingColumns) else ""


def parents(table: str) -> str:
    """Write the query for the tables that this one's foreign keys point at: dropping those locks them too."""
    return (
        "SELECT confrelid::regclass::text FROM pg_constraint "
        f"WHERE conrelid = {sql.regclass(table)} AND contype = 'f'"
    )


def create_archive(table: str, when: str, *then: str) -> None:
    """Create the schemas and the manifest where they are missing: the right to create may be missing too.

    `then` are statements that need the manifest, in the same round trip: a lock may be held meanwhile.
    """
    schemas = [sql.identifier(schema) for schema in dict.fromkeys((ARCHIVE, names.archive_of(table)))]
    missing = {f"to_regnamespace({sql.literal(each)}) IS NULL": f"CREATE SCHEMA {each}" for each in schemas}
    missing[f"{sql.regclass(MANIFEST)} IS NULL"] = CREATE_MANIFEST
    steps = "\n".join(
        f"  IF {condition} THEN\n    EXECUTE {sql.dollar(statement, 'ddl')};\n  END IF;"
        for condition, statement in missing.items()
    )
    steps += "".join(f"\n  EXECUTE {sql.dollar(statement, 'ddl')};" for statement in then)
    sql.do(f"  IF NOT ({when}) THEN RETURN; END IF;\n{steps}", why="the archive, where it is missing")


def drop_archive_if_empty() -> None:
    sql.do(
        f"""  IF {sql.regclass(MANIFEST)} IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM {MANIFEST})' INTO used;
  IF NOT used THEN
    DROP TABLE {MANIFEST};
    IF NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('{ARCHIVE}')) THEN
      DROP SCHEMA {ARCHIVE};
    END IF;
  END IF;""",
        "  used boolean;",
    )
