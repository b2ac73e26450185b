"""The run that is measured: the pending revisions on the clone, with nobody but the watcher beside them."""

import time
from collections.abc import Sequence
from dataclasses import replace

from pipestate.chain.position import Position
from pipestate.config import shown
from pipestate.engines.choice import choose
from pipestate.engines.engine import engine_of
from pipestate.rehearse.attribute import AUTOVACUUM, attribute
from pipestate.rehearse.child_process import Step, child, listen, refusal, require_told
from pipestate.rehearse.clone import Table, server_version
from pipestate.rehearse.felt import Rehearsal
from pipestate.rehearse.job import Job
from pipestate.rehearse.trace import Trace
from pipestate.rehearse.watch import Seen, Watcher


def measure(
    job: Job, position: Position, steps: Sequence[Step], tables: Sequence[Table], trace: Trace
) -> Rehearsal:
    """Upgrade the clone and say what was felt; refuse where nothing began."""
    start = time.monotonic()
    seen = choose(SEE, job.clone)(job, steps, tables, trace)
    if not trace.begun and trace.failure is not None:
        raise refusal(trace)
    made = _put_together(job, position, trace, seen, tables)
    return replace(made, duration_ms=(time.monotonic() - start) * 1000)


def _watched(job: Job, steps: Sequence[Step], tables: Sequence[Table], trace: Trace) -> Seen:
    watcher = Watcher(job.clone, tables, trace)
    try:
        with child(job, steps, measured=True) as process:
            seen = watcher.watch(process.stdout)
            require_told(process, trace)
            return seen
    finally:
        watcher.close()


def _listened(job: Job, steps: Sequence[Step], tables: Sequence[Table], trace: Trace) -> Seen:
    """Listen to the child alone: on SQLite the locks are the file's."""
    del tables
    with child(job, steps, measured=True) as process:
        listen(process, trace)
    return Seen()


SEE = {"postgresql": _watched, "sqlite": _listened}


def _put_together(
    job: Job, position: Position, trace: Trace, seen: Seen, tables: Sequence[Table]
) -> Rehearsal:
    revisions = attribute(trace, seen, tables)
    names = {table.oid: table.name for table in tables}
    vacuumed = {each.oid for each in seen.sightings if each.by == AUTOVACUUM}
    return Rehearsal(
        job.clone_name,
        server_version(job.clone),
        position.current,
        job.where(),
        0.0,
        seen.noise_s * 1000,
        revisions,
        trace.failure,
        seen.not_probed,
        tuple(sorted(names[oid] for oid in vacuumed)),
        shown(job.production) if job.production is not None else None,
        rows=sum(table.rows for table in tables),
        locks_file=engine_of(job.clone).IS_FILE,
    )
