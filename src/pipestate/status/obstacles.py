"""Reasons, known before an upgrade, for which a revision would be refused although its gate is open."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from sqlalchemy import Connection

from pipestate.project.graph import Migrations, Position
from pipestate.project.revision_files import changes_ledger, read_contracts
from pipestate.verify.report import Gate, Report


def with_obstacles(
    connection: Connection, migrations: Migrations, position: Position, report: Report
) -> Report:
    """Add to a report what would refuse the pending revisions of the open gates.

    Earlier pending revisions may still change what a contract meets, so only the next revisions are compared.
    """
    opened = {each for _, phase in report.phases() if phase.gate is Gate.OPEN for each in phase.opens}
    faults = (
        (revision.id, _fault(connection, migrations, revision.id, position.applied))
        for revision in migrations
        if revision.id in opened and revision.id not in position.applied
    )
    said = {id_: f"An upgrade would refuse revision {id_}: {fault}" for id_, fault in faults if fault}
    return replace(report, obstacles=said)


def _fault(connection: Connection, migrations: Migrations, id_: str, applied: Collection[str]) -> str | None:
    from pipestate.migration.engine import migration_engine_of  # loads Alembic

    pending = [
        revision
        for revision in migrations
        if revision.id in migrations.ancestors([id_]) and revision.id not in applied
    ]
    engine = migration_engine_of(connection)
    if not any(changes_ledger(revision.path) for revision in pending) and (
        fault := engine.ledger_fault(connection)
    ):
        return fault
    if [revision.id for revision in pending] != [id_]:
        return None
    return _first(
        engine.columns_fault(connection, table, columns, triggers)
        for hidden, triggers in read_contracts(pending[0].path)
        for table, columns in hidden.items()
    )


def _first(faults: Iterable[str | None]) -> str | None:
    return next((fault for fault in faults if fault), None)
