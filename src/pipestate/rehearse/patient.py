"""A patient reader: the upgrade runs once more, while somebody reads its tables and does not end."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipestate.rehearse.child_process import Step
from pipestate.rehearse.clone import Table
from pipestate.rehearse.felt import STRONGEST, Met, RevisionFelt, TableFelt
from pipestate.rehearse.job import Job
from pipestate.rehearse.readers import Asked, Readers
from pipestate.rehearse.trace import Failure

MOST_READERS = 16


@dataclass(frozen=True, slots=True)
class Meetings:
    """Whom the upgrade met, and what stopped it, where that was no reader."""

    met: tuple[Met, ...]
    failure: Failure | None = None


def find_asked(revisions: Sequence[RevisionFelt], tables: Sequence[Table]) -> dict[str, list[Table]]:
    """Find on which tables each revision asked for ACCESS EXCLUSIVE; of very many tables, the largest ones.

    One that changed something outside of a transaction may have asked on any: its locks are gone with the statement.
    """
    wanted = {
        (each.revision, each.table) for one in revisions for each in one.tables if STRONGEST in each.modes
    }
    named = {name for _, name in wanted}
    known = sorted(tables, key=lambda table: table.name not in named)[:MOST_READERS]
    found = {
        each.revision: [table for table in known if each.loose or (each.revision, table.name) in wanted]
        for each in revisions
    }
    return {revision: asked for revision, asked in found.items() if asked}


def meet(job: Job, steps: Sequence[Step], asked: Asked) -> Meetings:
    """Run the steps beside patient readers, and again after each time that it gave up."""
    found: list[Met] = []
    while True:
        readers = Readers(job.clone, asked)
        try:
            failure = readers.run(job, steps)
        finally:
            readers.close()
        found += readers.met
        if failure is None or not readers.tried:
            return Meetings(tuple(found), failure)
        asked = _without(asked, readers.tried)


def _without(asked: Asked, tried: set[tuple[str, str]]) -> Asked:
    return {
        revision: [table for table in tables if (revision, table.name) not in tried]
        for revision, tables in asked.items()
    }


def with_meetings(
    revisions: Sequence[RevisionFelt], met: Sequence[Met], tables: Sequence[Table]
) -> tuple[RevisionFelt, ...]:
    """Say of each request for ACCESS EXCLUSIVE how it met its reader, also of one that was too short to be seen."""
    known = {table.name: table for table in tables}
    found = []
    for revision in revisions:
        left = {each.table: each for each in met if each.revision == revision.revision}
        seen = [replace(table, met=left.pop(table.table, None)) for table in revision.tables]
        unseen = [_unseen(each, known[name]) for name, each in left.items()]
        found.append(replace(revision, tables=(*seen, *unseen)))
    return tuple(found)


def _unseen(met: Met, table: Table) -> TableFelt:
    """Make what was felt of a lock that was met and never seen: nobody waited so long that it counted."""
    timeout = met.by.lock_timeout_ms if met.by is not None else None
    return TableFelt(
        met.revision,
        table.name,
        table.rows,
        table.bytes,
        (STRONGEST,),
        rewritten=False,
        taken_by=met.by,
        spent_by=None,
        unbounded=not timeout,
        lock_timeout_ms=timeout,
        held_ms=0.0,
        queued_ms=0.0,
        writer_ms=0.0,
        reader_ms=0.0,
        rows_ms=0.0,
        met=met,
    )
