"""The only writer of runs and their results: online, and as SQL in scripts for psql.

Both ways write the columns of `tables`, so that a run means the same however it came about. The
server's clock gives the time. Nothing here changes or deletes a row.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, insert

from pipestate.errors import OWN_SQLSTATE
from pipestate.ledger.actor import who
from pipestate.ledger.owners import refuse_strangers
from pipestate.ledger.state import LedgerState, require_ledger
from pipestate.ledger.tables import ledger_on
from pipestate.verify.report import Gate, PhaseReport, Report, RunbookReport, count
from pipestate.verify.verdict import Verdict


class Event(StrEnum):
    """Why a row of `run` was written."""

    VERIFY = "verify"
    GATE = "gate"
    FORCE = "force"
    PURGE = "purge"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    STAMP = "stamp"


# Rows that say only that a revision was applied or taken back.
WRITTEN_BY_ITSELF = (Event.UPGRADE, Event.DOWNGRADE, Event.STAMP)
_WRITTEN_BY_THE_SERVER = ("id", "recorded_at", "run_id")
RUN_COLUMNS = tuple(c.name for c in ledger_on("postgresql").run.c if c.name not in _WRITTEN_BY_THE_SERVER)
RESULT_COLUMNS = tuple(
    c.name for c in ledger_on("postgresql").result.c if c.name not in _WRITTEN_BY_THE_SERVER
)
OLDER = (
    "the ledger of this database is older than the pipestate that wrote this script (%s): "
    "bring it up to date with pipestate ledger install, then run the script again"
)
COUNTS = ("passed", "failed", "warned", "errored", "skipped")


# --- Online ----------------------------------------------------------------------------------------


def record_report(
    connection: Connection,
    report: Report,
    *,
    event: str,
    actor: str | None = None,
    reason: str | None = None,
    revision: str | None = None,
) -> int:
    """Write a row for each phase that was asked, and one for each of its checks; return how many phases.

    `revision` is the one that a migration is about to run; else the database's own is kept.
    """
    require_ledger(connection)
    asked = [(runbook, phase) for runbook, phase in report.phases() if phase.gate in (Gate.OPEN, Gate.CLOSED)]
    for runbook, phase in asked:
        values = _phase_values(runbook, phase) | {
            "event": Event(event),
            "actor": actor or who(),
            "revision": revision or report.database.revision,
            "reason": reason,
        }
        _insert(connection, values, [_result_values(verdict) for verdict in phase.checks])
    return len(asked)


def record_event(
    connection: Connection,
    event: str,
    *,
    revision: str | None,
    reason: str | None = None,
    actor: str | None = None,
    duration_ms: float | None = None,
    state: LedgerState | None = None,
) -> None:
    """Write a row that belongs to no phase: a purge, a revision that was applied or taken back.

    `state` is what the caller has just seen of the ledger, so that nobody waits for a second look.
    """
    require_ledger(connection, state)
    values = {
        "event": Event(event),
        "actor": actor or who(),
        "revision": revision,
        "reason": reason,
        "duration_ms": duration_ms,
    }
    _insert(connection, values, [])


def _insert(connection: Connection, values: Mapping[str, Any], results: list[dict[str, Any]]) -> None:
    ledger = ledger_on(connection.dialect.name)
    run_id = connection.execute(insert(ledger.run).values(**values).returning(ledger.run.c.id)).scalar_one()
    if results:
        connection.execute(insert(ledger.result), [{"run_id": run_id, **result} for result in results])


def _phase_values(runbook: RunbookReport, phase: PhaseReport) -> dict[str, Any]:
    return {
        "runbook": runbook.name,
        "phase": phase.name,
        "gate": str(phase.gate),
        "runbook_sha256": runbook.sha256,
        "duration_ms": round(sum(verdict.duration_ms for verdict in phase.checks), 1),
        **count(phase.checks),
    }


def _result_values(verdict: Verdict) -> dict[str, Any]:
    return {
        "check_id": verdict.check_id,
        "outcome": str(verdict.outcome),
        "level": str(verdict.level),
        "required": verdict.require,
        "observed": dict(verdict.observed),
        "message": verdict.message,
        "duration_ms": verdict.duration_ms,
    }


# --- In a script -----------------------------------------------------------------------------------


def script_insert(values: Mapping[str, str], *, results: str | None = None) -> str:
    """Render PL/pgSQL that writes a run and its results, and does nothing where there is no ledger.

    `values` maps columns of `run` to SQL expressions: literals, or variables of the block. `actor` is the
    role unless given. `results` is an expression for a jsonb array of objects whose keys are columns of
    `result`; where the counts are not given, they are counted from it.
    """
    unknown = sorted(set(values) - set(RUN_COLUMNS))
    if unknown:
        raise ValueError(f"pipestate.run has no column {', '.join(unknown)}")
    given = {"actor": "current_user", **(_counted(results) if results else {}), **values}
    columns = [column for column in RUN_COLUMNS if column in given]
    insert_run = (
        f"INSERT INTO pipestate.run ({', '.join(columns)})\n"
        f"      VALUES ({', '.join(given[column] for column in columns)})"
    )
    body = f"    {insert_run};"
    if results:
        fields = ", ".join(f"judged.{column}" for column in RESULT_COLUMNS)
        body = f"""    WITH recorded AS (
      {insert_run} RETURNING run.id
    )
    INSERT INTO pipestate.result (run_id, {", ".join(RESULT_COLUMNS)})
    SELECT recorded.id, {fields}
    FROM recorded, {_recordset(results)} AS judged ({_result_types()});"""
    return f"""  IF pg_catalog.to_regclass('pipestate.run') IS NOT NULL THEN
    DECLARE
      stranger record;
    BEGIN
    {refuse_strangers().strip()}
{body}
    EXCEPTION WHEN undefined_column OR undefined_table THEN
      RAISE EXCEPTION USING ERRCODE = '{OWN_SQLSTATE}', MESSAGE = pg_catalog.format('{OLDER}', SQLERRM);
    END;
  END IF;"""


def _counted(results: str) -> dict[str, str]:
    """Count the outcomes of the array as `report.count` does: what went wrong at level warn is warned."""
    wrong = "judged.outcome IN ('failed', 'errored')"
    which = {
        "passed": "judged.outcome = 'passed'",
        "failed": "judged.outcome = 'failed' AND judged.level <> 'warn'",
        "warned": f"{wrong} AND judged.level = 'warn'",
        "errored": "judged.outcome = 'errored' AND judged.level <> 'warn'",
        "skipped": "judged.outcome = 'skipped'",
    }
    return {
        name: f"(SELECT pg_catalog.count(*) FROM {_recordset(results)} AS judged (outcome text, level text) WHERE {which[name]})"
        for name in COUNTS
    }


def _recordset(results: str) -> str:
    return f"pg_catalog.jsonb_to_recordset({results})"


def _result_types() -> str:
    types = {"observed": "jsonb", "duration_ms": "double precision"}
    return ", ".join(f"{column} {types.get(column, 'text')}" for column in RESULT_COLUMNS)
