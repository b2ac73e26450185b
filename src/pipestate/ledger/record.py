"""Writer of runs, their results, and rehearsals; on PostgreSQL `pipestate.record_gate` records gates.

Both write the same columns. The server's clock gives the time. This module only inserts rows.
"""

import getpass
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, TextClause, insert, null, text

from pipestate.database.engines import choose
from pipestate.ledger.state import (
    LedgerState,
    describe_foreign,
    foreign_records,
    make_own,
    require_ledger,
    this_database,
)
from pipestate.ledger.tables import ledger_on
from pipestate.verify.report import Gate, PhaseReport, Report, RunbookReport, Verdict, count

# A container's user is often root, so the launcher or the CI names the person.
VARIABLES = ("PIPESTATE_ACTOR", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")
# Version table with its schema, quoted as in `chain.candidates`: revision ids may repeat across chains.
_VERSION_TABLE = {
    "postgresql": """(SELECT '"' || replace(n.nspname, '"', '""') || '"."' || replace(c.relname, '"', '""') || '"'
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = pg_catalog.to_regclass(:version_table))""",
    "sqlite": ":version_table",
}
REHEARSE, COMPAT = "rehearse", "compat"


def who(environ: Mapping[str, str] | None = None) -> str:
    """Name the person: PIPESTATE_ACTOR, else the CI's own variable, else the user of the operating system.

    >>> who({"PIPESTATE_ACTOR": " ", "GITHUB_ACTOR": "octocat"})
    'octocat'
    """
    environ = os.environ if environ is None else environ
    for name in VARIABLES:
        if person := " ".join(environ.get(name, "").split()):
            return person
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


class Event(StrEnum):
    """Reason for a row in `run`."""

    VERIFY = "verify"
    GATE = "gate"
    FORCE = "force"
    PURGE = "purge"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    ADOPT = "adopt"
    STAMP = "stamp"
    DROP = "drop"  # by psql or another tool, with a reason that the guard in the server recorded


# Events that only record an applied or reverted revision.
WRITTEN_BY_ITSELF = (Event.UPGRADE, Event.DOWNGRADE, Event.STAMP)


def record_report(
    connection: Connection,
    report: Report,
    *,
    event: str,
    actor: str | None = None,
    reason: str | None = None,
    revision: str | None = None,
) -> int:
    """Write a row for each evaluated phase and for each of its checks; return the number of phases.

    `revision` is the one that a migration is about to run. The default is the database's current revision.
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
    title: str | None = None,
    file_sha256: str | None = None,
    version_table: str | None = None,
    dropped: Sequence[Mapping[str, Any]] | None = None,
    state: LedgerState | None = None,
) -> None:
    """Write a row outside any phase: a purge, or an applied or reverted revision.

    A revision has a `title`, the `file_sha256` of its file, and the quoted `version_table` of its chain.
    `dropped` lists the dropped objects. `state` is the ledger state that the caller has just read.
    """
    require_ledger(connection, state)
    values = {
        "event": Event(event),
        "actor": actor or who(),
        "revision": revision,
        "reason": reason,
        "duration_ms": duration_ms,
        "title": title,
        "file_sha256": file_sha256,
        "version_table": version_table and _resolved(connection, version_table),
        "dropped": null() if dropped is None else list(dropped),
    }
    _insert(connection, values, [])


def _resolved(connection: Connection, version_table: str) -> TextClause:
    return text(choose(_VERSION_TABLE, connection)).bindparams(version_table=version_table)


def _insert(connection: Connection, values: Mapping[str, Any], results: list[dict[str, Any]]) -> None:
    ledger = ledger_on(connection.dialect.name)
    row = {**values, "database": this_database(connection)}
    run_id = connection.execute(insert(ledger.run).values(**row).returning(ledger.run.c.id)).scalar_one()
    if results:
        connection.execute(insert(ledger.result), [{"run_id": run_id, **result} for result in results])


def _phase_values(runbook: RunbookReport, phase: PhaseReport) -> dict[str, Any]:
    return {
        "runbook": runbook.name,
        "phase": phase.name,
        "gate": str(phase.gate),
        "runbook_sha256": runbook.sha256,
        "phase_sha256": phase.text_sha256,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """One rehearsal. If a revision failed or a write is broken, its figures are None and all checks fail.

    `tables` has the clone's row count for each locked table; `scale` is the largest factor of the estimates.
    """

    revision: str | None
    target: str | None
    files: Mapping[str, str]
    clone: str
    ok: bool
    duration_ms: float
    kind: str = REHEARSE
    rows: int = 0
    longest_stall_ms: float | None = None
    noise_ms: float | None = None
    bounded: bool | None = None
    tables: Mapping[str, int] | None = None
    scale: float | None = None
    statements: int | None = None
    broken: int | None = None
    changed: int | None = None
    unprepared: int | None = None
    watch: Mapping[str, Any] | None = None


def record_rehearsal(connection: Connection, done: Rehearsed) -> None:
    """Write a rehearsal into the ledger of its target database."""
    require_ledger(connection)
    table = ledger_on(connection.dialect.name).rehearsal
    values = {name: null() if value is None else value for name, value in asdict(done).items()}
    connection.execute(insert(table).values(**values, actor=who(), database=this_database(connection)))


def adopt(connection: Connection, *, revision: str | None) -> str | None:
    """Change records of other databases into records of this one; describe them, else return None."""
    require_ledger(connection)
    found = foreign_records(connection)
    if not found:
        return None
    make_own(connection)
    described = describe_foreign(found)
    record_event(connection, Event.ADOPT, revision=revision, reason=described)
    return described
