"""Contracts that a database has applied, at any time: the backfills of their runbooks would copy old values over new."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from pipestate.ledger.record import Event
from pipestate.ledger.state import is_readable
from pipestate.ledger.tables import ledger_on
from pipestate.project.graph import Position
from pipestate.runbook.model import Advice, Phase, Runbook
from pipestate.verify.report import PhaseReport, Report, Verdict


def find_applied_contract(
    connection: Connection, position: Position, runbook: Runbook, phase: Phase
) -> str | None:
    """Find a contract behind a gate of this runbook that is applied, or was, since the phase began.

    A contract below the beginning of the phase does not count. If the revision that begins the phase was
    reverted after the contract, the backfill starts from nothing again.
    """
    if position.migrations is None:
        return None
    names = {phase.name for phase in runbook.phases}
    own = names | {f"{runbook.name}/{name}" for name in names}
    before = (
        position.migrations.ancestors([phase.from_])
        if phase.from_ and phase.from_ in position.migrations
        else ()
    )
    contracts = {
        each.id for each in position.migrations if not own.isdisjoint(each.gates) and each.id not in before
    }
    if applied := sorted(contracts & position.applied):
        return applied[0]
    if not contracts or not is_readable(connection):
        return None
    found = None
    for revision, event in _events(connection, contracts | ({phase.from_} if phase.from_ else set())):
        if revision in contracts:
            found = revision
        elif event == Event.DOWNGRADE:
            found = None
    return found


def _events(connection: Connection, revisions: set[str]) -> list[tuple[str, str]]:
    """Read when these revisions were applied and reverted: as the guard recorded it, else from the soft drops."""
    ledger = ledger_on(connection.dialect.name)
    run = ledger.run
    written = run.c.event.in_([Event.UPGRADE, Event.DOWNGRADE]) & run.c.revision.in_(sorted(revisions))
    found = connection.execute(select(run.c.revision, run.c.event).where(written).order_by(run.c.id)).all()
    if not found and ledger.soft_drop is not None:
        drop = ledger.soft_drop.c
        hidden = drop.revision.in_(sorted(revisions)) & (drop.state != "absent")
        found = connection.execute(select(drop.revision, drop.state).where(hidden)).all()
    return [(str(revision), str(event)) for revision, event in found]


def explain_refusal(address: str, contract: str) -> str:
    """Say why a backfill is over, and what fills columns in the other direction."""
    return (
        f"{address} is refused since the contract {contract} was applied: it would overwrite newer values with old "
        "ones. To fill the old columns, add `derived` to that contract and downgrade it"
    )


def without_ended_backfills(
    connection: Connection,
    report: Report,
    phases: Sequence[tuple[Runbook, Phase]],
    position: Position,
) -> Report:
    """Replace the advice of a failed check that names a backfill which the contract has ended."""
    by_name = {(runbook.path, phase.name): (runbook, phase) for runbook, phase in phases}

    def advised(path: str, phase: PhaseReport, verdict: Verdict) -> Verdict:
        if verdict.advice is None or "pipestate backfill " not in verdict.advice.text:
            return verdict
        runbook, _ = by_name[path, phase.name]
        for other in runbook.phases:
            for backfill in other.backfills:
                if (
                    f"pipestate backfill {runbook.name}/{backfill.id}" in verdict.advice.text
                    or f"pipestate backfill {backfill.id}" in verdict.advice.text
                ) and (contract := find_applied_contract(connection, position, runbook, other)):
                    text = explain_refusal(f"{runbook.name}/{backfill.id}", contract)
                    return replace(verdict, advice=Advice(text, verdict.advice.source))
        return verdict

    return replace(
        report,
        runbooks=tuple(
            replace(
                book,
                phases=tuple(
                    replace(phase, checks=tuple(advised(book.path, phase, each) for each in phase.checks))
                    for phase in book.phases
                ),
            )
            for book in report.runbooks
        ),
    )
