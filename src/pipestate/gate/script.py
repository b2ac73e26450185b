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
from pipestate.ddl.mark import is_not_locked, set_mark, setting
from pipestate.ddl.transaction import has_committed
from pipestate.engines.world import world_settings
from pipestate.gate.block import filled, write_block
from pipestate.gate.closed import what_was_done
from pipestate.gate.guarded import guard_output
from pipestate.gate.online import NOT_ASKED, PLANTED
from pipestate.gate.postgresql import NOT_READ_COMMITTED
from pipestate.gate.question import Question, down_revisions
from pipestate.gate.tables import ABSENT, Tables
from pipestate.gate.timeout import timeout_of
from pipestate.gate.versions import other_version
from pipestate.ledger.owners import refuse_strangers_before
from pipestate.ledger.record import script_insert
from pipestate.runbook.model import Check, Level
from pipestate.runbook.require import ROWS, Comparison, literal
from pipestate.safe import OBEYED
from pipestate.verify.files import SETTING, files_as_json, reads_rehearsals
from pipestate.verify.select import Asked
from pipestate.verify.signoff import signoff_check
from pipestate.verify.surroundings import PLANTED as FIND_PLANTED

LOOK = "pipestate.look"
HEAD = r"""\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off"""
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
    _judge(question, tables, [each.check.id for each in blocking], again, number)


def _blocking(asked: Sequence[Asked]) -> list[Asked]:
    return [each for each in asked if each.skipped is None and each.check.level is Level.BLOCK]


def _tag(question: Question, number: int) -> str:
    return sql.literal(f"{question.revision}/{number}")


def _passed(question: Question) -> str:
    return sql.literal(f"{question.revision}/1 passed")


def _begin(question: Question, tables: Tables, number: int) -> None:
    """Assert the version and the isolation, see whether there are rows, and set the timeout of the checks.

    Before all that, refuse where somebody else's functions could answer. The second pass demands that the first one was passed in this transaction, and that the lock is held.
    """
    write_block(
        "begin",
        why="where the database stands, and whether there is anything to lose",
        planted=_planted(question.revision),
        other_encoding=sql.refusal(OTHER_ENCODING, {"encoding": "current_setting('client_encoding')"}),
        other_version=other_version(down_revisions(op.get_context(), question.revision), question.revision),
        after_first_pass=_after_first_pass(question, tables) if number == 2 else "",
        not_read_committed=sql.refusal(
            NOT_READ_COMMITTED.replace("{revision}", question.revision),
            {"level": "upper(current_setting('transaction_isolation'))"},
        ),
        hold_rows=_hold_rows(tables, question.revision),
        of=_tag(question, number),
        before="before" if number == 2 else "filled",
        timeout=f"'{_timeout():g}s'",
    )


def _planted(revision: str) -> str:
    message = PLANTED.replace("{revision}", revision)
    refused = sql.refusal(message, {"found": "planted"})
    if force_reason() is not None:
        refused = f"RAISE WARNING '%', {sql.filled(message, {'found': 'planted'})};"
    return filled("planted", world=_world(), query=FIND_PLANTED.strip(), refused=refused)


def _timeout() -> float:
    return timeout_of(op.get_context().config)


def _after_first_pass(question: Question, tables: Tables) -> str:
    return filled(
        "after_first_pass",
        passed=_passed(question),
        tables=_names(tables),
        not_locked=is_not_locked("to_regclass(wanted)"),
        broken_off=sql.refusal(BROKEN_OFF),
    )


def _hold_rows(tables: Tables, revision: str) -> str:
    if not tables.names:
        return "  filled := true;"
    absent = sql.refusal(ABSENT.replace("{revision}", revision), {"table": "t"})
    return filled(
        "hold_rows",
        world=_world(),
        tables=_names(tables),
        refuse_absent=""
        if tables.may_be_gone
        else f"    IF to_regclass(t) IS NULL THEN\n      {absent}\n    END IF;",
    )


def _names(tables: Tables) -> str:
    return sql.literals(sql.name(table) for table in tables.names)


def _world() -> str:
    return "\n".join(f"    PERFORM {setting};" for setting in world_settings())


def _files(question: Question, asked: Asked) -> str:
    """Tell a check on rehearsals the files from which this script was written."""
    if not reads_rehearsals(asked):
        return ""
    return f"    PERFORM pg_catalog.set_config('{SETTING}', {sql.literal(files_as_json(question.position.paths))}, true);"


def _check(question: Question, asked: Asked, number: int, *, always: bool) -> None:
    """Write the block of one check; a sign-off is a check on the ledger."""
    check = asked.check
    if not isinstance(check, Check):
        check = signoff_check(check, "postgresql", runbook=asked.runbook.name, phase=asked.phase.name)
    if check.sql.lstrip()[:7].upper() == "EXPLAIN":
        raise MigrationError(
            f"{asked.source}: an EXPLAIN cannot stand in a script: give {check.id} `level: warn`, or another query"
        )
    applies = "(look ->> 'filled')::boolean"
    if not always:  # rows that came after the first look were never judged
        applies += " AND NOT (look ->> 'before')::boolean"
    observed = "coalesce(seen::text, n || ' rows')"
    if check.require.counts_rows:
        observed = "n || ' rows' || coalesce(', the first ' || seen::text, '')"
    write_block(
        "check",
        why=f"{check.id}: {check.require.text}",
        of=_tag(question, number),
        broken_off=sql.refusal(BROKEN_OFF),
        applies=applies,
        world=_world(),
        files=_files(question, asked),
        trusted=refuse_strangers_before(check.sql),
        query=sql.dollar(_query(check), "check"),
        holds=_criterion(check),
        values=sql.literals((check.id, check.require.text, asked.source)),
        observed=observed,
        seconds=f"{_timeout():g}",
        id=sql.literal(check.id),
        required=sql.literal(check.require.text),
    )


def _query(check: Check) -> str:
    """Write the query that says how many rows the check has, whether its columns hold, and its first row."""
    compared = [_comparison(each) for each in check.require.comparisons if each.column != ROWS]
    return (
        f"WITH q AS MATERIALIZED (\n{check.sql}\n) "
        f"SELECT count(*), coalesce(bool_and({' AND '.join(compared) or 'true'}), false), "
        "(SELECT to_jsonb(q) FROM q LIMIT 1) FROM q"
    )


def _criterion(check: Check) -> str:
    """Write the condition that the check holds, over what its query has said."""
    comparisons = check.require.comparisons
    holds = [f"n {_side(each)}" for each in comparisons if each.column == ROWS]
    holds += ["n = 1 AND held"] if any(each.column != ROWS for each in comparisons) else []
    return " AND ".join(holds)


def _judge(question: Question, tables: Tables, ids: Sequence[str], again: set[str], number: int) -> None:
    """Refuse where a check does not hold or was not asked; record the pass; at last leave the mark."""
    wanted = f"ARRAY[{sql.literals(ids)}]::text[]"
    if number == 2:
        under = f"ARRAY[{sql.literals(id_ for id_ in ids if id_ in again)}]::text[]"
        wanted = f"(CASE WHEN (look ->> 'before')::boolean THEN {under} ELSE {wanted} END)"
    reason = force_reason()
    which = ". What does not hold:" if has_committed() else ":"
    message = (
        f"the gate {question.name} is closed, so {what_was_done()}{which}{{found}} -- "
        f"to look closer: pipestate verify {question.runbook.name} --phase {question.phase.name}"
    )
    closed = sql.refusal(message, {"found": "found"})
    if reason is not None:
        closed = f"RAISE WARNING 'the gate {question.name} is closed, and forced: %', {sql.literal(reason)};"
    write_block(
        "judge",
        why=f"the gate {question.name}: open or closed",
        of=_tag(question, number),
        broken_off=sql.refusal(BROKEN_OFF),
        obeyed=sql.literal(f"[{OBEYED}]"),
        wanted=wanted,
        closed=closed,
        recorded=_recorded(question, reason, number),
        not_asked=_not_asked(question, tables) if number == 2 else "    NULL;",
        passed_on=_passed_on(question, number),
    )


def _not_asked(question: Question, tables: Tables) -> str:
    return f"    RAISE NOTICE '%', {sql.literal(NOT_ASKED % (question.name, ', '.join(tables.names)))};"


def _passed_on(question: Question, number: int) -> str:
    """Tell the second pass that the first one was passed; after the second, leave the mark."""
    if number == 2:
        return setting(question.revision)
    return f"set_config('{LOOK}', (look || jsonb_build_object('of', {_passed(question)}))::text, true)"


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
    return f"    IF {forced} OR {whole} THEN\n{insert}\n    END IF;"


def _comparison(comparison: Comparison) -> str:
    """Compare as `judge` does: text by code point, and NaN, which PostgreSQL puts above all, never holds."""
    column = f"q.{sql.quoted(comparison.column)}"
    if isinstance(comparison.value, str):
        return f'({column} COLLATE "C" {_side(comparison)}) IS TRUE'
    no_nan = "" if isinstance(comparison.value, bool) else f" AND {column}::text <> 'NaN'"
    return f"({column} {_side(comparison)}{no_nan}) IS TRUE"


def _side(comparison: Comparison) -> str:
    return f"{comparison.op} {literal(comparison.value)}"
