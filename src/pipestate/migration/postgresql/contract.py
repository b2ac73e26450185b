"""A contract on PostgreSQL: calls of the procedures that the ledger installs (`migration/server/*.sql`).

Soft drop: under one short lock tables move into the archive, and columns get hidden names. Restore: rows
written since are filled while the columns are still hidden. Then the names return under one short lock.
Constraints that check every row are validated last. The same calls run online and in scripts.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from alembic import op
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.ledger.record import who
from pipestate.migration import sql
from pipestate.migration.alembic import may_commit
from pipestate.migration.contract import Drop, DroppedColumns, DroppedTable
from pipestate.migration.postgresql import calls
from pipestate.migration.postgresql.gate import require_usable_ledger
from pipestate.migration.postgresql.session import lock_tables
from pipestate.migration.request import OTHER_CASE, force_reason


def require_runtime(drop: Drop, *, restores: bool = False) -> None:
    """Refuse to continue without the ledger, with other functions than this pipestate's, or if another role could
    replace a table or a function of the contract."""
    if sql.is_offline():
        calls.write_requirement()
    else:
        require_usable_ledger(op.get_bind())
        calls.functions_installed()
    reason = sql.literal(reason) if (reason := force_reason()) is not None else "NULL"
    names = [part.table for part in drop.parts]
    if restores:
        names += [expression for part in drop.columns for expression in part.derived.values()]
        names += [each for table in drop.tables if table.derived for each in table.derived.columns.values()]
    sql.emit(
        f"CALL pipestate.require_session({sql.literal(drop.revision)}, pg_catalog.current_schemas(false), "
        f"{calls.written(chr(10).join(names))}, "
        f"{reason})"
    )


def also_locked(drop: Drop) -> str:
    """Write the query for tables at the other end of dropped foreign keys: the server also locks those."""
    parts = [(table.table, "NULL") for table in drop.tables]
    parts += [(some.table, _array(some.columns)) for some in drop.columns]
    return " UNION ALL ".join(
        f"SELECT pipestate.referenced({sql.regclass(table)}, {columns})" for table, columns in parts
    )


def columns_fault(
    connection: Connection, table: str, columns: Sequence[str], triggers: Sequence[str]
) -> str | None:
    """Say why the columns could not be dropped now; None if they can, or if this role may not call the ledger's functions."""
    query = (
        f"SELECT pipestate.columns_fault({sql.regclass(table)}, {_array(columns)}, {_array(triggers)}, false)"
    )
    try:
        with connection.begin_nested():
            found = connection.exec_driver_sql(query, execution_options={"no_parameters": True}).scalar()
    except DBAPIError:
        return None
    return None if found is None else str(found)


def refuse_drop(drop: Drop) -> None:
    """Refuse, before the first change, objects that cannot be dropped and restored.

    The soft drop repeats this check under its lock.
    """
    require_runtime(drop)
    faults = [
        f"pipestate.columns_fault({sql.regclass(some.table)}, {_array(some.columns)}, "
        f"{_array(drop.triggers)}, {drop.keep})"
        for some in drop.columns
    ]
    if drop.keep:
        faults += [f"pipestate.rights_fault({_of(table)}, NULL)" for table in drop.tables]
    if drop.tables:
        keys = " UNION ALL ".join(
            f"SELECT pipestate.foreign_keys({_of(some)}, {_array(some.columns)})" for some in drop.columns
        )
        dropped = f"ARRAY({keys})" if keys else "'{}'"
        faults.append(f"pipestate.tables_fault({_regclasses(drop.tables)}, {dropped})")
    body = "\n".join(f"  fault := coalesce(fault, {fault});" for fault in faults)
    # The same queries run under the lock: this session has planned them before.
    body += "".join(
        f"\n  PERFORM pipestate.renamed_with({_of(some)}, {_array(some.columns)}, {_array(list(some.derived))}, "
        f"pipestate.removed_with({_of(some)}, {_array(some.columns)}, {_array(drop.triggers)}, "
        f"{_array(list(some.derived))}), 0);"
        for some in drop.columns
    )
    sql.do(
        f"{body}\n  IF fault IS NOT NULL THEN\n    PERFORM pipestate.refuse(fault || '; this "
        "contract changed nothing');\n  END IF;",
        "  fault text;",
        why="what this revision drops can be dropped, and restored",
    )


def soft_drop(drop: Drop) -> None:
    """Drop columns first: their foreign keys may point at the tables. The caller has passed the gate."""
    for some in drop.columns:
        if drop.keep:
            call = (
                f"soft_drop_columns({sql.literals((some.revision, drop.gate, some.table))}, {_of(some)}, "
                f"{_array(some.columns)}, {_array(drop.triggers)}, {_array(list(some.derived))}, "
                f"{drop.may_be_gone})"
            )
        else:
            call = (
                f"drop_columns_for_good({sql.literals((some.revision, some.table))}, {_of(some)}, "
                f"{_array(some.columns)}, {_array(drop.triggers)}, {drop.may_be_gone}, {drop.has_backup})"
            )
        sql.emit(f"CALL pipestate.{call}")
    if drop.tables:
        names = _array([table.table for table in drop.tables])
        tables = f"{names}, {_regclasses(drop.tables)}, {drop.may_be_gone}"
        if drop.keep:
            call = f"soft_drop_tables({sql.literals((drop.revision, drop.gate))}, {tables})"
        else:
            call = f"drop_tables_for_good({sql.literal(drop.revision)}, {tables}, {drop.has_backup})"
        sql.emit(f"CALL pipestate.{call}")
    sql.say_warnings()


def restore(drop: Drop) -> None:
    """Restore tables first: foreign keys of the columns may point at them."""
    require_runtime(drop, restores=True)
    reason = sql.literal(reason) if (reason := force_reason()) is not None else "NULL"
    actor = "current_user" if sql.is_offline() else sql.literal(who())
    for part in drop.parts:
        derived = _array(list(part.derived) if isinstance(part, DroppedColumns) else [])
        sql.emit(
            f"CALL pipestate.require_restorable({_key(part)}, {reason}, {actor}, {derived}, {_changed_at(part)})"
        )
    sql.say_warnings()
    sql.emit("CALL pipestate.lift_timeout()")
    commits = may_commit()
    for table in drop.tables:
        _restore_table(table, commits=commits)
    for some in drop.columns:
        _restore_columns(some, commits=commits)
    with _unlocked(commits):
        for part in drop.parts:
            sql.do(
                f"CALL pipestate.validate_restored({_key(part)});",
                why=f"{part.described}: constraints that were valid",
            )
    if drop.columns:
        lock_tables(also=_hidden(drop.columns, "validating"), in_server=True)
    for part in drop.parts:
        sql.emit(f"CALL pipestate.end_restore({_key(part)})")
    sql.emit("CALL pipestate.set_timeout_back()")
    sql.say_warnings()


def restore_dropped_table(table: str, revision: str) -> None:
    """Restore a table that the downgrade of this revision archived; do nothing if there is none."""
    if sql.keeps_registry():
        calls.call("bring_back_table", table, revision)
        return
    part = DroppedTable(table, revision=revision)
    found = f"SELECT count(*) FROM pipestate.soft_dropped({_key(part)}) WHERE state <> 'absent'"
    restored = (
        f"CALL pipestate.restore_table({_key(part, kind=False)})",
        f"CALL pipestate.validate_restored({_key(part)})",
        f"CALL pipestate.end_restore({_key(part)})",
    )
    body = "\n".join(f"    EXECUTE {sql.dollar(call, 'ddl')};" for call in restored)
    sql.do(
        f"""  IF {sql.regclass("pipestate.soft_drop")} IS NULL THEN RETURN; END IF;
  EXECUTE {sql.dollar(found, "ddl")} INTO kept;
  IF kept > 0 THEN
{body}
  END IF;""",
        "  kept bigint;",
        why=f"{table}, where a downgrade put it aside",
    )


def _restore_table(table: DroppedTable, *, commits: bool) -> None:
    if table.derived is not None:
        derived = table.derived
        sql.emit(
            f"CALL pipestate.begin_table_restore({_key(table, kind=False)}, {_array(table.key)}, "
            f"{sql.regclass(derived.source)}, {sql.dollar(derived.where, 'sql')}, {_json(derived.columns)}, "
            f"{_changed_at(table)})"
        )
        with _unlocked(commits):
            sql.do(f"CALL pipestate.fill({commits});", why=f"{table.table}: rows that were written since")
    lock_tables(also=_hidden([table], "hidden"), in_server=True)
    sql.emit(f"CALL pipestate.restore_table({_key(table, kind=False)})")


def _restore_columns(some: DroppedColumns, *, commits: bool) -> None:
    hidden = _hidden([some], "hidden")
    lock_tables(also=hidden, mode="SHARE ROW EXCLUSIVE" if commits else "ACCESS EXCLUSIVE", in_server=True)
    sql.emit(
        f"CALL pipestate.begin_restore({_key(some, kind=False)}, {_json(some.derived)}, {_changed_at(some)}, "
        f"current_setting('search_path'), {commits})"
    )
    with _unlocked(commits):
        sql.do(f"CALL pipestate.fill({commits});", why=f"{some.table}: rows that were written since")
        if commits:
            sql.execute_each(f"SELECT pipestate.indexes_to_build({_key(some, kind=False)}) WHERE true")
    lock_tables(also=hidden, in_server=True)
    sql.emit(f"CALL pipestate.restore_columns({_key(some, kind=False)})")


@contextmanager
def _unlocked(commits: bool) -> Iterator[None]:
    """Release the lock, and commit each statement by itself.

    If that is not allowed, continue under the lock.
    """
    if not commits:
        yield
        return
    with sql.autocommit():
        yield


def _key(part: DroppedTable | DroppedColumns, *, kind: bool = True) -> str:
    """Write the arguments that find the entry of a soft drop: revision, kind, name, and search path of the
    name."""
    values = (part.revision, part.kind, part.table) if kind else (part.revision, part.table)
    return f"{sql.literals(values)}, {_schemas(part.table)}"


def _changed_at(part: DroppedTable | DroppedColumns) -> str:
    return sql.literal(part.changed_at) if part.changed_at else "NULL"


def _schemas(table: str) -> str:
    schema, dot, _ = table.rpartition(".")
    return f"ARRAY[{sql.literal(schema)}]" if dot else "current_schemas(false)::text[]"


def _hidden(parts: Sequence[DroppedTable | DroppedColumns], state: str) -> str:
    """Write the query for the tables of these soft drops, and those that their foreign keys name."""
    return " UNION ALL ".join(
        f"SELECT pipestate.restored_with({_key(part)}, {sql.literal(state)})" for part in parts
    )


def _of(part: DroppedTable | DroppedColumns) -> str:
    return sql.regclass(part.table)


def _regclasses(parts: Sequence[DroppedTable | DroppedColumns]) -> str:
    return f"ARRAY[{', '.join(map(_of, parts))}]::regclass[]"


def _array(values: Sequence[str]) -> str:
    return f"ARRAY[{sql.literals(values)}]::text[]"


def _json(values: Mapping[str, str]) -> str:
    pairs = ",\n  ".join(f"{sql.literal(key)}, {sql.dollar(text, 'sql')}" for key, text in values.items())
    return f"jsonb_build_object({pairs})"


def refuse_other_case(tables: Sequence[str], columns: Mapping[str, Sequence[str]]) -> None:
    """Refuse each name that exists only in another spelling: `may_be_gone` would treat it as dropped."""
    found = [_tables_alike(table) for table in tables]
    found += [_columns_alike(table, names) for table, names in columns.items()]
    if found:
        message = sql.refusal(OTHER_CASE, {"named": "named", "other": "other"})
        alike = "\n    UNION ALL ".join(found)
        sql.do(
            f"  {calls.OWN_PATH_BEGINS}\n"
            f"  FOR named, other IN\n    {alike}\n  LOOP\n    {message}\n  END LOOP;\n"
            f"  {calls.OWN_PATH_ENDS}",
            f"  {calls.PATH_BEFORE}\n  schemas CONSTANT name[] := pg_catalog.current_schemas(false);\n"
            "  named text;\n  other text;",
            why="no name of this revision exists in another spelling alone",
        )


def _tables_alike(table: str) -> str:
    """Write the query for tables whose name equals this one but for its case, if this one does not exist."""
    schema, name = _parts(table)
    place = f"lower(n.nspname) = lower({sql.literal(schema)})" if schema else "n.nspname = ANY (schemas)"
    return (
        f"SELECT {sql.literal(table)}, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace\n"
        f"      WHERE c.relkind IN ('r', 'p') AND {place} AND lower(c.relname) = lower({sql.literal(name)})\n"
        f"        AND NOT EXISTS (SELECT {_named(table)})"
    )


def _columns_alike(table: str, names: Sequence[str]) -> str:
    """Write the query for columns whose name equals one of these but for its case, if that one does not
    exist."""
    return (
        f"SELECT concat({sql.literal(f'{table}.')}, w.name), a.attname::text FROM unnest({_array(names)}) AS w (name)\n"
        f"      JOIN pg_attribute a ON a.attrelid IN (SELECT c.oid {_named(table)}) AND NOT a.attisdropped\n"
        "        AND lower(a.attname) = lower(btrim(w.name, ' \"'))\n"
        "      WHERE NOT EXISTS (SELECT FROM pg_attribute e WHERE e.attrelid = a.attrelid AND NOT e.attisdropped\n"
        "        AND e.attname = w.name)"
    )


def _named(table: str) -> str:
    """Write the end of a query for the table of that very name, on the project's search path."""
    schema, dot, name = table.rpartition(".")
    place = f"n.nspname = {sql.literal(schema)}" if dot else "n.nspname = ANY (schemas)"
    return (
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE {place} AND c.relname = {sql.literal(name)}"
    )


def _parts(table: str) -> tuple[str, str]:
    schema, _, name = table.rpartition(".")
    return schema.strip().strip('"'), name.strip().strip('"')
