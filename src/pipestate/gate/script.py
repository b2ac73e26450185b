"""A gate as SQL: a DO block in the transaction of the change, for scripts that psql runs.

It raises where a check does not hold, which aborts that transaction: even a psql that goes on after
errors then drops nothing. Checks run read-only; the subtransaction that made them so ends inside the
block (a private SQLSTATE is raised and caught), because a `ROLLBACK TO` outside would revive a
transaction that the gate has just condemned.
"""

from collections.abc import Sequence

from pipestate.ddl import sql
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.force import closed
from pipestate.runbook.model import Check, Level
from pipestate.runbook.require import ROWS, Comparison, literal
from pipestate.verify.select import Asked
from pipestate.verify.signoff import signoff_check

END_OF_READING = "PSTRO"
ABSENT = (
    "revision {revision} locks {table}, which does not exist: mend the name in `lock`, "
    "or write may_be_gone=True where that is right"
)


def write(asked: Sequence[Asked], tables: Sequence[str], *, may_be_gone: bool = False) -> None:
    """Emit the block; where the tables hold no rows it does nothing."""
    blocking = [each for each in asked if each.skipped is None and each.check.level is Level.BLOCK]
    if not blocking:
        return
    runbook, phase = asked[0].runbook, asked[0].phase
    name = f"{runbook.name}/{phase.name}"
    message = (
        f"the gate {name} is closed, so nothing of this revision was done:{{found}} -- "
        f"to look closer: pipestate verify {runbook.name} --phase {phase.name}"
    )
    checks = "\n".join(_check(each) for each in blocking)
    sql.do(
        f"""{_unless_empty(tables, may_be_gone=may_be_gone)}  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
{checks}
    RAISE EXCEPTION USING ERRCODE = '{END_OF_READING}', MESSAGE = 'end of reading';
  EXCEPTION WHEN SQLSTATE '{END_OF_READING}' THEN NULL;
  END;
  IF found <> '' THEN
    {closed(message, {"found": "found"}, runbook=runbook.name, phase=phase.name, sha256=runbook.sha256)}
  END IF;""",
        "  found text := '';\n  n bigint;\n  held boolean;\n  seen jsonb;\n  filled boolean := false;\n  t text;",
        why=f"the gate {name}: {', '.join(each.check.id for each in blocking)}",
    )


def _unless_empty(tables: Sequence[str], *, may_be_gone: bool) -> str:
    if not tables:
        return ""
    message = ABSENT.replace("{revision}", sql.current_revision())
    refuse = (
        f"    IF to_regclass(t) IS NULL THEN\n      {sql.refusal(message, {'table': 't'})}\n    END IF;\n"
    )
    return f"""  FOREACH t IN ARRAY ARRAY[{sql.literals(sql.name(table) for table in tables)}] LOOP
{"" if may_be_gone else refuse}    IF to_regclass(t) IS NOT NULL AND NOT filled THEN
      EXECUTE format('SELECT EXISTS (SELECT FROM %s)', to_regclass(t)) INTO filled;
    END IF;
  END LOOP;
  IF NOT filled THEN RETURN; END IF;
"""


def _check(asked: Asked) -> str:
    check = asked.check
    if not isinstance(check, Check):
        check = signoff_check(check, "postgresql", runbook=asked.runbook.name, phase=asked.phase.name)
    if check.sql.lstrip()[:7].upper() == "EXPLAIN":
        raise MigrationError(
            f"{asked.source}: an EXPLAIN cannot stand in a script: give {check.id} `level: warn`, or another query"
        )
    compared = [each for each in check.require.comparisons if each.column != ROWS]
    columns = " AND ".join(_comparison(each) for each in compared) or "true"
    query = f"SELECT count(*), coalesce(bool_and({columns}), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (\n{check.sql}\n) q"
    holds = [f"n {_side(each)}" for each in check.require.comparisons if each.column == ROWS]
    holds += ["n = 1 AND held"] if compared else []
    values = sql.literals((check.id, check.require.text, asked.source))
    return f"""    EXECUTE {sql.dollar(query, "check")} INTO n, held, seen;
    IF NOT ({" AND ".join(holds)}) THEN
      found := found || format(E'\\n  %1$s: observed %4$s, required %2$s (%3$s)', {values},
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;"""


def _comparison(comparison: Comparison) -> str:
    """As `judge` compares: text by code point, and NaN, which PostgreSQL puts above all, never holds."""
    column = f"q.{sql.quoted(comparison.column)}"
    if isinstance(comparison.value, str):
        return f'({column} COLLATE "C" {_side(comparison)}) IS TRUE'
    no_nan = "" if isinstance(comparison.value, bool) else f" AND {column}::text <> 'NaN'"
    return f"({column} {_side(comparison)}{no_nan}) IS TRUE"


def _side(comparison: Comparison) -> str:
    return f"{comparison.op} {literal(comparison.value)}"
