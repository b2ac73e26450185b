"""The guard of a contract revision: nobody writes any more to what is about to go.

It runs on the server, in the transaction of the change and under its lock, so that guard and DROP
stand or fall together, online and in a script.
"""

from alembic import op

from pipestate.migrations import sql, sqlite
from pipestate.migrations.failure import MigrationError


def force_reason() -> str | None:
    """What was given as `-x force=...`."""
    reason: str | None = op.get_context().opts.get("pipestate_force")
    return reason


def refuse_recent_writes(table: str, *, postgresql: str, sqlite: str, column: str | None = None) -> None:
    """Refuse while rows satisfy the condition; where the table or the column is gone, it holds."""
    if sql.is_sqlite():
        _refuse_on_sqlite(table, column, sqlite)
        return
    present = f"{sql.regclass(table)} IS NOT NULL"
    if column is not None:
        present = (
            f"EXISTS (SELECT FROM pg_attribute WHERE attrelid = {sql.regclass(table)} "
            f"AND attname = {sql.literal(column)} AND NOT attisdropped)"
        )
    count = sql.literal(f"SELECT count(*) FROM {sql.name(table)} WHERE {postgresql}")
    sql.do(
        f"""  IF NOT {present} THEN RETURN; END IF;
  EXECUTE {count} INTO recent;
  IF recent > 0 THEN
    {closed(_message(table, column, postgresql), {"n": "recent"})}
  END IF;""",
        "  recent bigint;",
    )


def closed(message: str, values: dict[str, str]) -> str:
    """What a closed gate does, as PL/pgSQL: refuse, or with `-x force` write down why it did not."""
    reason = force_reason()
    if reason is None:
        return sql.refusal(message, values)
    return f"{force_entry(reason)};"


def force_entry(reason: str) -> str:
    """The statement that puts a forced gate into the ledger."""
    values = sql.literals(("force", "sites-consolidation", "readiness", "closed", "", reason))
    return (
        "INSERT INTO pipestate_run (actor, event, runbook, phase, gate, runbook_sha256, reason, revision) "
        f"VALUES ({'CURRENT_USER' if not sql.is_sqlite() else chr(39) + 'sqlite' + chr(39)}, {values}, "
        f"{sql.literal(_revision())})"
    )


def _message(table: str, column: str | None, condition: str) -> str:
    what = f"{table}.{column}" if column else table
    return (
        f"the gate is closed: {{n}} rows of {what} were written within the last 24 hours, so something still "
        f"uses it. Stop that first; to see them: SELECT * FROM {table} WHERE {condition}"
    )


def _refuse_on_sqlite(table: str, column: str | None, condition: str) -> None:
    if sql.is_offline() or not sqlite.has_table(table):
        return
    if column is not None and column not in sqlite.column_names(table):
        return
    recent = sqlite.scalar(f"SELECT count(*) FROM {sql.name(table)} WHERE {condition}")
    if not recent:
        return
    reason = force_reason()
    if reason is None:
        raise MigrationError(_message(table, column, condition).replace("{n}", str(recent)))
    sql.emit(force_entry(reason))


def _revision() -> str:
    return str(op.get_context().opts["pipestate_part"][0])
