"""Work on many rows in short transactions, in key order, so that nobody waits for long."""

from pipestate.ddl import sql

BATCH_SIZE = 2000


def update_in_batches(
    table: str,
    key: str,
    statement: str,
    *,
    condition: str = "true",
    size: int = BATCH_SIZE,
    computed: bool = False,
    quiet: bool = False,
) -> None:
    """Run `statement` once for each range of keys, each in a transaction of its own (PostgreSQL).

    In it, `{range}` stands for the condition that selects the batch's keys (`{range s}`: of the alias
    `s`, where the statement reads the table a second time). It must stand being run
    again: after a kill the ranges start anew. `condition` says whether there is anything to do.
    With `computed`, `statement` is an SQL expression for the statement. With `quiet`, the application's
    triggers do not fire, where the role may ask for that: one that sets `updated_at` would make every
    row look as if it had been written to. Use inside `sql.autocommit()`.
    """
    target, column = sql.name(table), sql.name(key)
    work = statement if computed else sql.dollar(statement, "work")
    # Not max(k): there is none for uuid.
    pick = (
        f"SELECT k FROM (SELECT {column} AS k FROM {target} %s ORDER BY {column} LIMIT {size}) b "
        "ORDER BY k DESC LIMIT 1"
    )
    sql.do(
        f"""  IF NOT ({condition}) THEN RETURN; END IF;
  work := ({work});
  EXECUTE {sql.literal(pick % f"WHERE {column} IS NOT NULL")} INTO upto;
  LOOP
    EXIT WHEN upto IS NULL;
{_silence(table) if quiet else ""}    EXECUTE replace(replace(work, '{{range}}', {_range(target, column)}), '{{range s}}', {_range("s", column)})
      USING below, upto;
    COMMIT;
    below := upto;
    EXECUTE {sql.literal(pick % f"WHERE {column} > $1")} INTO upto USING below;
  END LOOP;""",
        f"  work text;\n  loud text;\n  below {target}.{column}%TYPE;\n  upto {target}.{column}%TYPE;",
    )


def _range(table: str, key: str) -> str:
    """As an expression: the condition for keys above $1, or from the start, up to $2."""
    upper = f"{table}.{key} <= $2"
    return (
        f"CASE WHEN below IS NULL THEN {sql.literal(f'($1 IS NULL AND {upper})')} "
        f"ELSE {sql.literal(f'({table}.{key} > $1 AND {upper})')} END"
    )


def _silence(table: str) -> str:
    """For this batch's transaction; where it is not allowed, say once what will fire."""
    return f"""    BEGIN
      PERFORM set_config('session_replication_role', 'replica', true);
    EXCEPTION WHEN insufficient_privilege THEN
      SELECT string_agg(tgname, ', ') INTO loud FROM pg_trigger WHERE below IS NULL
        AND tgrelid = {sql.regclass(table)} AND NOT tgisinternal AND tgenabled <> 'D' AND tgtype & 16 > 0;
      IF loud IS NOT NULL THEN
        RAISE WARNING 'triggers of {table} fire for every row that is brought back: %; if one sets the time of the '
          'last change, unchanged rows will look changed. A superuser can do it without them', loud;
      END IF;
    END;
"""
