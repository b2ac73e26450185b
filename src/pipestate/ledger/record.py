"""The ledger: what was verified, signed off, observed and reconciled. Written once, never changed."""

import getpass
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, cast, func, insert, inspect, literal, select, union_all, update
from sqlalchemy.types import String

from pipestate.errors import ConfigError
from pipestate.schema import (
    pipestate_attestation,
    pipestate_observation,
    pipestate_reconciliation,
    pipestate_run,
)
from pipestate.verify.report import Gate, PhaseReport, Report, RunbookReport, count

# How many sites of a reconciliation are told one by one.
DETAILS = 1000


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history."""

    at: datetime
    kind: str
    who: str
    what: str
    revision: str | None


def require_ledger(connection: Connection) -> None:
    if not inspect(connection).has_table(pipestate_run.name):
        raise ConfigError(
            "this database has no ledger yet: run alembic upgrade 0002 first "
            '(outside the checkout: alembic -c "$(pipestate --alembic-ini)" upgrade 0002)'
        )


def record_run(connection: Connection, report: Report, *, actor: str | None = None) -> int:
    """One row for each phase that ran; how many."""
    require_ledger(connection)
    ran = [(runbook, phase) for runbook, phase in report.phases() if phase.gate in (Gate.OPEN, Gate.CLOSED)]
    for runbook, phase in ran:
        values = phase_values(runbook, phase) | {
            "event": "verify",
            "actor": actor or who(),
            "revision": report.database.revision,
            "duration_ms": report.duration_ms,
        }
        connection.execute(insert(pipestate_run).values(values))
    return len(ran)


def record_gate(connection: Connection, report: Report, *, revision: str, reason: str | None) -> None:
    """That a revision asked its gate; with a reason, that it went through a closed one."""
    for runbook, phase in report.phases():
        forced = phase.gate is not Gate.OPEN
        values = phase_values(runbook, phase) | {
            "event": "force" if forced else "gate",
            "actor": who(),
            "revision": revision,
            "duration_ms": report.duration_ms,
            "reason": reason if forced else None,
        }
        connection.execute(insert(pipestate_run).values(values))


def phase_values(runbook: RunbookReport, phase: PhaseReport) -> dict[str, Any]:
    """What the ledger keeps of a phase: counts, and what kept the gate closed."""
    counts = count(phase.checks)
    wrong = [
        {"id": verdict.check_id, "outcome": str(verdict.outcome), "message": verdict.message}
        for verdict in phase.checks
        if verdict.went_wrong
    ]
    return {
        "runbook": runbook.name,
        "phase": phase.name,
        "gate": str(phase.gate),
        "runbook_sha256": runbook.sha256,
        "details": wrong or None,
        **counts,
    }


def attest(connection: Connection, name: str, *, by: str, note: str | None, revision: str | None) -> None:
    require_ledger(connection)
    if not by.strip():
        raise ConfigError("--by is empty: say whose word it is")
    values = {"name": name, "attested_by": by, "note": note, "revision": revision}
    connection.execute(insert(pipestate_attestation).values(values))


def observe(connection: Connection, facts: Mapping[str, float], *, source: str, revision: str | None) -> None:
    """Outside facts, with the server's clock."""
    require_ledger(connection)
    rows = [
        {"name": name, "value": value, "source": source, "actor": who(), "revision": revision}
        for name, value in facts.items()
    ]
    if rows:
        connection.execute(insert(pipestate_observation), rows)


def begin_reconciliation(connection: Connection, *, manual: bool, revision: str | None) -> int:
    """That a run has begun: without an end, it was killed or broke off."""
    require_ledger(connection)
    values = {"triggered_by": "manual" if manual else "cron", "actor": who(), "revision": revision}
    done = connection.execute(
        insert(pipestate_reconciliation).values(values).returning(pipestate_reconciliation.c.id)
    )
    return int(done.scalar_one())


def end_reconciliation(
    connection: Connection,
    run: int,
    counts: Mapping[str, int],
    details: list[dict[str, str]],
    *,
    broke_off: str | None,
) -> None:
    """What became of it; one that broke off keeps no end, and says why."""
    table = pipestate_reconciliation
    told = details[:DETAILS] + ([{"error": broke_off}] if broke_off else [])
    values: dict[str, Any] = {"found": len(details), "details": told or None, **counts}
    if broke_off is None:
        values["finished_at"] = (
            func.clock_timestamp() if connection.dialect.name == "postgresql" else func.now()
        )
    connection.execute(update(table).where(table.c.id == run).values(values))


def parse_fact(text: str) -> tuple[str, float]:
    """`name=value` as it is given to `observe --set`.

    >>> parse_fact("sqs_queue_depth=12")
    ('sqs_queue_depth', 12.0)
    """
    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not equals or not name.strip() or not math.isfinite(number):
        raise ConfigError(
            f"--set {text}: write name=value with a number, for example --set sqs_queue_depth=12"
        )
    return name.strip(), number


def history(connection: Connection, *, limit: int = 20) -> list[Entry]:
    """The ledger, newest first."""
    require_ledger(connection)
    run, word = pipestate_run.c, pipestate_attestation.c
    fact, heal = pipestate_observation.c, pipestate_reconciliation.c
    parts: Sequence[Any] = (
        select(
            run.recorded_at.label("at"),
            run.event.label("kind"),
            run.actor.label("who"),
            (run.runbook + "/" + run.phase + " " + run.gate).label("what"),
            run.revision.label("revision"),
            run.reason.label("note"),
        ),
        select(word.attested_at, literal("sign-off"), word.attested_by, word.name, word.revision, word.note),
        select(
            fact.observed_at,
            literal("observation"),
            fact.actor,
            fact.name + " = " + cast(fact.value, String),
            fact.revision,
            fact.source,
        ),
        select(
            heal.started_at,
            literal("reconciliation"),
            heal.actor,
            "found "
            + cast(heal.found, String)
            + ", recovered "
            + cast(heal.recovered, String)
            + " ("
            + heal.triggered_by
            + ")",
            heal.revision,
            literal(None, String),
        ),
    )
    everything = union_all(*parts).subquery()
    query = select(everything).order_by(everything.c.at.desc(), everything.c.kind).limit(limit)
    return [
        Entry(row.at, row.kind, row.who, f"{row.what}: {row.note}" if row.note else row.what, row.revision)
        for row in connection.execute(query)
    ]


def who() -> str:
    """The operating system's user: the ledger says who typed it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
