"""What is recorded by Python and by the server's own writer is the same."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from pipestate.core.errors import ConfigError
from pipestate.ledger.record import Event, record_event, record_report
from pipestate.runbook.model import Level
from pipestate.verify.report import DatabaseInfo, Gate, Outcome, PhaseReport, Report, RunbookReport, Verdict
from support.servers import Database

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
    phases = (PhaseReport("ready", gate, ("b2",), checks), PhaseReport("done", Gate.NOT_STARTED, (), ()))
    info = DatabaseInfo("postgresql://db", "postgresql", "18", "a1", "b2")
    return Report(info, datetime.now(UTC), 12.0, (RunbookReport("orders", "orders.md", "abc", phases),))


def test_a_run_keeps_every_check_with_what_it_observed(ledger: Database) -> None:
    with ledger.begin() as connection:
        assert record_report(connection, report(), event="verify") == 1, (
            "a phase that has not started did not run"
        )
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


def as_state() -> str:
    """What a gate on the server remembers of the same report."""
    results = [
        {
            "check_id": each.check_id,
            "outcome": each.outcome,
            "level": each.level,
            "required": each.require,
            "observed": each.observed,
            "message": each.message,
            "duration_ms": each.duration_ms,
        }
        for each in VERDICTS
    ]
    named = {"runbook": "orders", "phase": "ready", "sha256": "abc", "revision": "b2", "actor": "me"}
    return json.dumps(named | {"results": results})


def test_the_server_writes_what_the_writer_writes(pg_ledger: Database) -> None:
    runs = "SELECT to_jsonb(r) - 'id' - 'recorded_at' FROM pipestate.run AS r"
    results = "SELECT to_jsonb(r) - 'id' - 'run_id' FROM pipestate.result AS r ORDER BY id"
    with pg_ledger.begin() as connection:
        record_report(connection, report(), event="force", revision="b2", reason="it's on fire", actor="me")
    by_writer = pg_ledger.rows(runs), pg_ledger.rows(results)
    pg_ledger.run("DELETE FROM pipestate.run")
    assert pg_ledger.rows(results) == [], "results go with their run"
    with pg_ledger.begin() as connection:
        connection.execute(
            text("SELECT pipestate.record_gate(CAST(:state AS jsonb), 'force', true, 'it''s on fire')"),
            {"state": as_state()},
        )
    assert (pg_ledger.rows(runs), pg_ledger.rows(results)) == by_writer


def test_an_open_gate_is_recorded_as_such(ledger: Database) -> None:
    passed = report(Gate.OPEN, (replace(VERDICTS[0], observed={}),))
    with ledger.begin() as connection:
        record_report(connection, passed, event=Event.GATE, revision="b2")
    assert ledger.rows(RUN) == [("gate", "orders", "ready", "open", "b2", None, 1, 0, 0, 0, 0)]
