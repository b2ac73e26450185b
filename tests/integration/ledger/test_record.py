"""One writer: what is recorded online and by a script is the same."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from alembics import psql
from bed import Database
from pipestate.errors import ConfigError
from pipestate.ledger.record import (
    RESULT_COLUMNS,
    RUN_COLUMNS,
    Event,
    record_event,
    record_report,
    script_insert,
)
from pipestate.runbook.model import Level
from pipestate.verify.report import DatabaseInfo, Gate, PhaseReport, Report, RunbookReport
from pipestate.verify.verdict import Outcome, Verdict

RUN = "SELECT event, runbook, phase, gate, revision, reason, passed, failed, warned, errored, skipped FROM pipestate.run"
RESULT = "SELECT check_id, outcome, level, required, message FROM pipestate.result ORDER BY id"


def verdict(check: str, outcome: Outcome, level: Level = Level.BLOCK) -> Verdict:
    return Verdict(
        check, outcome, level, "n = 0", {"n": 3, "who": ["a", None]}, f"{check}: it's 3", "p:1", 1.5
    )


VERDICTS = (
    verdict("good", Outcome.PASSED),
    verdict("bad", Outcome.FAILED),
    verdict("odd", Outcome.FAILED, Level.WARN),
    verdict("broken", Outcome.ERRORED),
    verdict("later", Outcome.SKIPPED),
)


def report(gate: Gate = Gate.CLOSED, checks: tuple[Verdict, ...] = VERDICTS) -> Report:
    phases = (PhaseReport("ready", gate, ("b2",), checks), PhaseReport("done", Gate.AHEAD, (), ()))
    info = DatabaseInfo("postgresql://db", "postgresql", "18", "a1", "b2")
    return Report(info, datetime.now(UTC), 12.0, (RunbookReport("orders", "orders.md", "abc", phases),))


def test_a_run_keeps_every_check_with_what_it_observed(ledger: Database) -> None:
    with ledger.begin() as connection:
        assert record_report(connection, report(), event="verify") == 1, "a phase that is ahead did not run"
    assert ledger.rows(RUN) == [("verify", "orders", "ready", "closed", "a1", None, 1, 1, 1, 1, 1)]
    rows = ledger.rows(RESULT)
    assert rows[1] == ("bad", "failed", "block", "n = 0", "bad: it's 3")
    assert [row[1] for row in rows] == ["passed", "failed", "failed", "errored", "skipped"]
    observed = ledger.rows("SELECT observed FROM pipestate.result")[0][0]
    assert (json.loads(observed) if isinstance(observed, str) else observed) == {"n": 3, "who": ["a", None]}


def test_what_a_migration_records_names_its_revision_and_the_reason(ledger: Database) -> None:
    with ledger.begin() as connection:
        record_report(connection, report(), event="force", revision="b2", reason="incident 42", actor="ann")
        record_event(connection, "upgrade", revision="b2", duration_ms=1500.0)
    assert ledger.rows("SELECT event, actor, revision, reason, duration_ms FROM pipestate.run ORDER BY id")[
        0
    ] == ("force", "ann", "b2", "incident 42", 7.5)
    assert ledger.value("SELECT count(*) FROM pipestate.run WHERE event = 'upgrade' AND phase IS NULL") == 1


def test_an_event_that_nobody_knows_is_refused(ledger: Database) -> None:
    with ledger.begin() as connection, pytest.raises(ValueError, match="verfiy"):
        record_event(connection, "verfiy", revision=None)


def test_without_a_ledger_the_writer_says_so(database: Database) -> None:
    with database.begin() as connection, pytest.raises(ConfigError, match="has no ledger: run `pipestate"):
        record_report(connection, report(), event="verify")


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def script(results: str | None = None) -> str:
    """A block as a gate writes it, with variables whose names it chose itself."""
    values = {
        "event": "'force'",
        "runbook": "'orders'",
        "phase": "'ready'",
        "gate": "state",
        "runbook_sha256": "'abc'",
        "revision": "'b2'",
        "reason": literal("it's on fire"),
        "duration_ms": "7.5",
    }
    return f"""DO $body$
DECLARE
  state text := 'closed'; found text := 'x'; id int := 1; outcome text := 'y'; results jsonb := {results or "NULL"};
BEGIN
{script_insert(values, results="results" if results else None)}
END $body$;"""


def as_results(verdicts: tuple[Verdict, ...]) -> str:
    rows = [
        {
            "check_id": each.check_id,
            "outcome": each.outcome,
            "level": each.level,
            "required": each.require,
            "observed": each.observed,
            "message": each.message,
            "duration_ms": each.duration_ms,
        }
        for each in verdicts
    ]
    return literal(json.dumps(rows))


def test_a_script_writes_what_the_writer_writes(pg_ledger: Database) -> None:
    done = psql(pg_ledger, script(as_results(VERDICTS)), "-v", "ON_ERROR_STOP=1")
    assert done.returncode == 0, done.stderr
    columns = ", ".join(column for column in RUN_COLUMNS if column != "actor")
    by_script = pg_ledger.rows(f"SELECT {columns} FROM pipestate.run")
    results = f"SELECT {', '.join(RESULT_COLUMNS)} FROM pipestate.result ORDER BY id"
    results_by_script = pg_ledger.rows(results)
    pg_ledger.run("DELETE FROM pipestate.run")
    assert pg_ledger.rows(results) == [], "results go with their run"
    with pg_ledger.begin() as connection:
        record_report(connection, report(), event="force", revision="b2", reason="it's on fire")
    assert pg_ledger.rows(f"SELECT {columns} FROM pipestate.run") == by_script
    assert pg_ledger.rows(results) == results_by_script


def test_a_script_without_results_writes_the_run_alone(pg_ledger: Database) -> None:
    assert psql(pg_ledger, script(), "-v", "ON_ERROR_STOP=1").returncode == 0
    assert pg_ledger.rows("SELECT event, gate, actor = current_user FROM pipestate.run") == [
        ("force", "closed", True)
    ]


def test_an_empty_list_of_results_still_writes_the_run(pg_ledger: Database) -> None:
    assert psql(pg_ledger, script("'[]'"), "-v", "ON_ERROR_STOP=1").returncode == 0
    assert pg_ledger.value("SELECT count(*) FROM pipestate.run") == 1


def test_without_a_ledger_a_script_goes_on(pg: Database) -> None:
    done = psql(pg, script(as_results(VERDICTS)), "-v", "ON_ERROR_STOP=1")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_column_that_the_table_does_not_have_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no column details"):
        script_insert({"event": "'gate'", "details": "NULL"})


def test_an_open_gate_is_recorded_as_such(ledger: Database) -> None:
    passed = report(Gate.OPEN, (replace(VERDICTS[0], observed={}),))
    with ledger.begin() as connection:
        record_report(connection, passed, event=Event.GATE, revision="b2")
    assert ledger.rows(RUN) == [("gate", "orders", "ready", "open", "b2", None, 1, 0, 0, 0, 0)]
