"""A gate in the script that `alembic upgrade --sql` writes, for a psql that may do anything with it.

A pass is a block that begins it, one block a check, and a block that judges. Results travel between them in a
transaction-local setting, so that a part that is left out, pasted alone or run in another transaction is
noticed. A check runs in a subtransaction that sets the world of a look and ends inside its block (a private
SQLSTATE is raised and caught), and under a timeout that was set before its block began: inside it would do
nothing. The judge of the last pass leaves the mark, and from there on `guarded` makes every statement of the
script ask for it.
"""

from collections.abc import Callable, Sequence

from alembic import op

from pipestate.ddl import lock_tables, sql
from pipestate.ddl.failure import MigrationError
from pipestate.ddl.force import force_reason
from pipestate.ddl.mark import set_mark, setting
from pipestate.gate.guarded import guard_output
from pipestate.gate.online import NOT_READ_COMMITTED, PLANTED
from pipestate.gate.question import Question, down_revisions
from pipestate.gate.tables import ABSENT, Tables
from pipestate.gate.versions import other_version
from pipestate.ledger.owners import refuse_strangers_before
from pipestate.ledger.record import script_insert
from pipestate.runbook.model import Check, Level
from pipestate.runbook.require import ROWS, Comparison, literal
from pipestate.safe import OBEYED
from pipestate.verify.files import SETTING, files_as_json, reads_rehearsals
from pipestate.verify.run import DEFAULT_TIMEOUT_S
from pipestate.verify.select import Asked
from pipestate.verify.signoff import signoff_check
from pipestate.verify.surroundings import PLANTED as FIND_PLANTED
from pipestate.world import world_settings

LOOK = "pipestate.look"
TIMEOUT = "pipestate.statement_timeout"
END_OF_READING = "PSTRO"
HEAD = r"""\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off"""
# Values come from the data: what a terminal would obey is shown as a question mark.
SAFE = rf"regexp_replace(r ->> 'message', '[{OBEYED}]', '?', 'g')"
OTHER_ENCODING = "this script is written in UTF-8, and the session reads {encoding}: run all of it, or \\encoding UTF8 first"
BROKEN_OFF = (
    "an earlier part of this gate failed or was left out, so this one does nothing: run the whole script"
)


def pass_gate(question: Question, tables: Tables, prepare: Callable[[], None] | None) -> None:
    """Write both passes, the lock between them and the mark; guard everything that comes after."""
    if not _blocking(question.asked) and force_reason() is None:
        raise MigrationError(
            f"the gate {question.name} has nothing to ask at revision {question.revision}, and nothing to ask is "
            "closed: no check of it applies there and blocks"
        )
    _write_pass(question, tables, number=1, asked=question.asked)
    if prepare is not None:
        prepare()
        _write_pass(question, tables, number=1, asked=question.asked)
    lock_tables(*tables.names)
    _write_pass(question, tables, number=2, asked=question.asked)
    set_mark(question.revision)
    guard_output(op.get_context(), question.revision)


def require(question: Question, checks: Sequence[str]) -> None:
    """Write a pass over some checks, without a lock."""
    asked = [each for each in question.asked if each.check.id in checks]
    _write_pass(question, Tables((), may_be_gone=True), number=0, asked=asked)


def _write_pass(question: Question, tables: Tables, *, number: int, asked: Sequence[Asked]) -> None:
    """Write one pass: 0 asks without tables, 1 the whole phase, 2 what is asked under the lock."""
    blocking = _blocking(asked)
    again = {each.check.id for each in question.again}
    sql.write_plain(f"-- the gate {question.name}, revision {question.revision}, pass {number}\n{HEAD}")
    sql.emit("SET LOCAL standard_conforming_strings = on")
    sql.emit("SET LOCAL client_encoding = 'UTF8'")
    _begin(question, tables, number)
    for each in blocking:
        always = number < 2 or each.check.id in again
        _check(question, each, number, always=always)
    _judge(question, [each.check.id for each in blocking], again, number)


def _blocking(asked: Sequence[Asked]) -> list[Asked]:
    return [each for each in asked if each.skipped is None and each.check.level is Level.BLOCK]


def _tag(question: Question, number: int) -> str:
    return f"{question.revision}/{number}"


def _passed(question: Question) -> str:
    return f"{question.revision}/1 passed"


def _begin(question: Question, tables: Tables, number: int) -> None:
    """Assert the version and the isolation, see whether there are rows, and set the timeout of the checks.

    Before all that, refuse where somebody else's functions could answer. The second pass demands that the first one
    was passed in this transaction, and that the lock is held.
    """
    sql.do(
        f"""{_planted(question.revision)}
  IF current_setting('client_encoding') <> 'UTF8' THEN
    {sql.refusal(OTHER_ENCODING, {"encoding": "current_setting('client_encoding')"})}
  END IF;
{other_version(down_revisions(op.get_context(), question.revision), question.revision)}
{_after_first_pass(question, tables) if number == 2 else ""}  IF current_setting('transaction_isolation') <> 'read committed' THEN
    {sql.refusal(NOT_READ_COMMITTED.replace("{revision}", question.revision), {"level": "upper(current_setting('transaction_isolation'))"})}
  END IF;
{_rows(tables, question.revision)}
  PERFORM set_config('{LOOK}', jsonb_build_object('of', {sql.literal(_tag(question, number))}, 'filled', filled,
    'before', {"before" if number == 2 else "filled"}, 'results', '[]'::jsonb)::text, true);
  PERFORM set_config('{TIMEOUT}', current_setting('statement_timeout'), true);
  PERFORM set_config('statement_timeout', '{DEFAULT_TIMEOUT_S:g}s', true);""",
        "  planted text;\n  filled boolean := false;\n  before boolean;\n  t text;",
        why="where the database stands, and whether there is anything to lose",
    )


def _planted(revision: str) -> str:
    message = PLANTED.replace("{revision}", revision)
    refused = sql.refusal(message, {"found": "planted"})
    if force_reason() is not None:
        refused = f"RAISE WARNING '%', {sql.filled(message, {'found': 'planted'})};"
    return f"""  BEGIN
{_world()}
    SELECT * INTO planted FROM ({FIND_PLANTED.strip()}) AS found (names);
    RAISE EXCEPTION USING ERRCODE = '{END_OF_READING}';
  EXCEPTION WHEN SQLSTATE '{END_OF_READING}' THEN NULL;
  END;
  IF planted IS NOT NULL THEN
    {refused}
  END IF;"""


def _after_first_pass(question: Question, tables: Tables) -> str:
    names = sql.literals(sql.name(table) for table in tables.names)
    held = (
        "SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted "
        "AND mode = 'AccessExclusiveLock' AND relation = to_regclass(wanted)"
    )
    return f"""  IF nullif(current_setting('{LOOK}', true), '')::jsonb ->> 'of'
      IS DISTINCT FROM {sql.literal(_passed(question))}
      OR EXISTS (SELECT FROM unnest(ARRAY[{names}]) AS wanted
                 WHERE to_regclass(wanted) IS NOT NULL AND NOT EXISTS ({held})) THEN
    {sql.refusal(BROKEN_OFF)}
  END IF;
  before := (current_setting('{LOOK}')::jsonb ->> 'filled')::boolean;
"""


def _rows(tables: Tables, revision: str) -> str:
    if not tables.names:
        return "  filled := true;"
    message = ABSENT.replace("{revision}", revision)
    refuse = (
        f"    IF to_regclass(t) IS NULL THEN\n      {sql.refusal(message, {'table': 't'})}\n    END IF;\n"
    )
    return f"""  BEGIN
{_world()}
    FOREACH t IN ARRAY ARRAY[{sql.literals(sql.name(table) for table in tables.names)}] LOOP
{"" if tables.may_be_gone else refuse}      IF to_regclass(t) IS NOT NULL AND NOT filled THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', to_regclass(t)) INTO filled;
      END IF;
    END LOOP;
    RAISE EXCEPTION USING ERRCODE = '{END_OF_READING}';
  EXCEPTION WHEN SQLSTATE '{END_OF_READING}' THEN NULL;
  END;"""


def _world() -> str:
    return "\n".join(f"    PERFORM {setting};" for setting in world_settings())


def _files(question: Question, asked: Asked) -> str:
    """Tell a check on rehearsals the files from which this script was written."""
    if not reads_rehearsals(asked):
        return ""
    return f"\n    PERFORM pg_catalog.set_config('{SETTING}', {sql.literal(files_as_json(question.position.paths))}, true);"


def _trusted(check: Check) -> str:
    """Let a check that reads the ledger err where something of that belongs to a stranger."""
    refused = refuse_strangers_before(check.sql)
    return f"\n{refused}" if refused else ""


def _check(question: Question, asked: Asked, number: int, *, always: bool) -> None:
    check = asked.check
    if not isinstance(check, Check):
        check = signoff_check(check, "postgresql", runbook=asked.runbook.name, phase=asked.phase.name)
    if check.sql.lstrip()[:7].upper() == "EXPLAIN":
        raise MigrationError(
            f"{asked.source}: an EXPLAIN cannot stand in a script: give {check.id} `level: warn`, or another query"
        )
    compared = [each for each in check.require.comparisons if each.column != ROWS]
    columns = " AND ".join(_comparison(each) for each in compared) or "true"
    query = (
        f"WITH q AS MATERIALIZED (\n{check.sql}\n) "
        f"SELECT count(*), coalesce(bool_and({columns}), false), (SELECT to_jsonb(q) FROM q LIMIT 1) FROM q"
    )
    holds = [f"n {_side(each)}" for each in check.require.comparisons if each.column == ROWS]
    holds += ["n = 1 AND held"] if compared else []
    applies = "(look ->> 'filled')::boolean"
    if not always:  # rows that came after the first look were never judged
        applies += " AND NOT (look ->> 'before')::boolean"
    values = sql.literals((check.id, check.require.text, asked.source))
    observed = "coalesce(seen::text, n || ' rows')"
    if check.require.counts_rows:
        observed = "n || ' rows' || coalesce(', the first ' || seen::text, '')"
    sql.do(
        f"""  IF look ->> 'of' IS DISTINCT FROM {sql.literal(_tag(question, number))} THEN
    {sql.refusal(BROKEN_OFF)}
  END IF;
  IF NOT ({applies}) THEN RETURN; END IF;
  BEGIN
{_world()}{_files(question, asked)}{_trusted(check)}
    EXECUTE {sql.dollar(query, "check")} INTO n, held, seen;
    RAISE EXCEPTION USING ERRCODE = '{END_OF_READING}';
  EXCEPTION
    WHEN SQLSTATE '{END_OF_READING}' THEN
      outcome := CASE WHEN {" AND ".join(holds)} THEN 'passed' ELSE 'failed' END;
      said := format('observed %4$s, required %2$s (%3$s)', {values}, left({observed}, 300));
    WHEN query_canceled THEN
      said := format('cancelled, or took longer than {DEFAULT_TIMEOUT_S:g} s (%3$s)', {values});
    WHEN OTHERS THEN
      said := format('%4$s (%3$s)', {values}, SQLERRM);
  END;
  PERFORM set_config('{LOOK}', jsonb_set(look, '{{results}}', (look -> 'results') || jsonb_build_object(
    'check_id', {sql.literal(check.id)}, 'outcome', outcome, 'level', 'block',
    'required', {sql.literal(check.require.text)}, 'observed', coalesce(seen, jsonb_build_object('rows', n)),
    'message', said, 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1)))::text, true);""",
        f"""  look jsonb := nullif(current_setting('{LOOK}', true), '')::jsonb;
  began timestamptz := clock_timestamp();
  n bigint;
  held boolean;
  seen jsonb;
  outcome text := 'errored';
  stranger record;
  said text;""",
        why=f"{check.id}: {check.require.text}",
    )


def _judge(question: Question, ids: Sequence[str], again: set[str], number: int) -> None:
    """Refuse where a check does not hold or was not asked; record the pass; at last leave the mark."""
    wanted = f"ARRAY[{sql.literals(ids)}]::text[]"
    if number == 2:
        under = f"ARRAY[{sql.literals(id_ for id_ in ids if id_ in again)}]::text[]"
        wanted = f"(CASE WHEN (look ->> 'before')::boolean THEN {under} ELSE {wanted} END)"
    reason = force_reason()
    message = (
        f"the gate {question.name} is closed, so nothing of this revision was done:{{found}} -- "
        f"to look closer: pipestate verify {question.runbook.name} --phase {question.phase.name}"
    )
    closed = sql.refusal(message, {"found": "found"})
    if reason is not None:
        closed = f"RAISE WARNING 'the gate {question.name} is closed, and forced: %', {sql.literal(reason)};"
    sql.do(
        f"""  IF look ->> 'of' IS DISTINCT FROM {sql.literal(_tag(question, number))} THEN
    {sql.refusal(BROKEN_OFF)}
  END IF;
  PERFORM set_config('statement_timeout', current_setting('{TIMEOUT}'), true);
  IF (look ->> 'filled')::boolean THEN
    IF ARRAY(SELECT r ->> 'check_id' FROM jsonb_array_elements(look -> 'results') r) <> {wanted} THEN
      {sql.refusal(BROKEN_OFF)}
    END IF;
    SELECT string_agg(format(E'\\n  %s: %s', r ->> 'check_id', {SAFE}), '') INTO found
      FROM jsonb_array_elements(look -> 'results') r WHERE r ->> 'outcome' <> 'passed';
    IF found IS NOT NULL THEN
      {closed}
    END IF;
{_recorded(question, reason, number)}  END IF;
{_passed_on(question, number)}""",
        f"  look jsonb := nullif(current_setting('{LOOK}', true), '')::jsonb;\n  found text;",
        why=f"the gate {question.name}: open or closed",
    )


def _passed_on(question: Question, number: int) -> str:
    """Tell the second pass that the first one was passed; after the second, leave the mark."""
    if number == 2:
        return f"  PERFORM {setting(question.revision)};"
    passed = f"look || jsonb_build_object('of', {sql.literal(_passed(question))})"
    return f"  PERFORM set_config('{LOOK}', ({passed})::text, true);"


def _recorded(question: Question, reason: str | None, number: int) -> str:
    """Write the look at the whole phase, and every forced one, into the ledger, where there is one."""
    forced = "found IS NOT NULL"
    whole = {0: "false", 1: "true", 2: "NOT (look ->> 'before')::boolean"}[number]
    insert = script_insert(
        {
            "event": f"CASE WHEN {forced} THEN 'force' ELSE 'gate' END",
            "runbook": sql.literal(question.runbook.name),
            "phase": sql.literal(question.phase.name),
            "gate": f"CASE WHEN {forced} THEN 'closed' ELSE 'open' END",
            "runbook_sha256": sql.literal(question.runbook.sha256),
            "revision": sql.literal(question.revision),
            "reason": f"CASE WHEN {forced} THEN {sql.literal(reason or '')} END",
        },
        results="look -> 'results'",
    )
    return f"""    IF {forced} OR {whole} THEN
{insert}
    END IF;
"""


def _comparison(comparison: Comparison) -> str:
    """Compare as `judge` does: text by code point, and NaN, which PostgreSQL puts above all, never holds."""
    column = f"q.{sql.quoted(comparison.column)}"
    if isinstance(comparison.value, str):
        return f'({column} COLLATE "C" {_side(comparison)}) IS TRUE'
    no_nan = "" if isinstance(comparison.value, bool) else f" AND {column}::text <> 'NaN'"
    return f"({column} {_side(comparison)}{no_nan}) IS TRUE"


def _side(comparison: Comparison) -> str:
    return f"{comparison.op} {literal(comparison.value)}"
