"""A rehearsal from beginning to end."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from pipestate import db
from pipestate.chain.graph import Chain
from pipestate.chain.position import Position
from pipestate.chain.stretch import ends
from pipestate.config import shown
from pipestate.errors import ConfigError
from pipestate.interrupt import telling
from pipestate.rehearse.attribute import AUTOVACUUM, attribute
from pipestate.rehearse.child_process import Step, child, listen, refusal, require_told
from pipestate.rehearse.clone import (
    HALF_MIGRATED,
    Table,
    oldest_transactions,
    require_clone,
    server_version,
    tables_of,
    vacuum,
)
from pipestate.rehearse.contents import read_contents
from pipestate.rehearse.felt import STRONGEST, Rehearsal
from pipestate.rehearse.job import Job
from pipestate.rehearse.judge import judge, judge_file
from pipestate.rehearse.recorded import files_of, require_recordable, write_record
from pipestate.rehearse.there_and_back import come_back, require_way_back
from pipestate.rehearse.trace import Trace
from pipestate.rehearse.watch import Seen, Watcher


def rehearse(
    job: Job,
    wanted: Sequence[str],
    limit_ms: float | None = None,
    say: Callable[[str], None] = print,
    *,
    there_and_back: bool = False,
    record: bool = False,
) -> Rehearsal:
    """Run the pending revisions on the clone, watch them, and say what was felt."""
    if record:
        require_recordable(job)
    position = require_clone(job.clone, job.production, job.locate)
    steps = pending_steps(job.chain, position, wanted)
    files = files_of(job, position, wanted) if record else {}
    with telling(lambda: HALF_MIGRATED):
        made = _rehearsed(job, position, wanted, steps, limit_ms, say, there_and_back=there_and_back)
    if record:
        write_record(job, made, files)
    return made


def _rehearsed(
    job: Job,
    position: Position,
    wanted: Sequence[str],
    steps: Sequence[Step],
    limit_ms: float | None,
    say: Callable[[str], None],
    *,
    there_and_back: bool,
) -> Rehearsal:
    down = require_way_back(job, position, wanted) if there_and_back else None
    before = read_contents(job.clone) if there_and_back else None
    made = _felt(job, position, steps, limit_ms, say)
    if down is None or before is None or made.failure is not None:
        return made
    say(f"back to {down[1]}, and up again")
    return replace(made, returned=come_back(job, down, steps, before))


def _felt(
    job: Job,
    position: Position,
    steps: Sequence[Step],
    limit_ms: float | None,
    say: Callable[[str], None],
) -> Rehearsal:
    on_server = job.clone.get_backend_name() == "postgresql"
    if on_server:
        say("VACUUM ANALYZE of the clone")
        vacuum(job.clone)
    tables = tables_of(job.clone) if on_server else []
    say(
        f"upgrading the clone from {position.current or 'base'} to {', '.join(target for _, target in steps)}"
    )
    trace, start = Trace(), time.monotonic()
    seen = _watched(job, steps, tables, trace) if on_server else _listened(job, steps, trace)
    if not trace.begun and trace.failure is not None:
        raise refusal(trace)
    made = _put_together(job, position, trace, seen, tables)
    made = replace(made, duration_ms=(time.monotonic() - start) * 1000)
    if limit_ms is None:
        return made
    found = (
        judge(made.revisions, limit_ms, made.noise_floor_ms)
        if on_server
        else judge_file(made.revisions, limit_ms)
    )
    return replace(made, limit_ms=limit_ms, findings=found)


def pending_steps(chain: Chain, position: Position, wanted: Sequence[str]) -> list[Step]:
    """List the upgrades that apply what is wanted and not applied yet; ConfigError where nothing is."""
    needed = chain.ancestors(wanted) - position.applied
    pending = [revision for revision in chain if revision.id in needed]
    if not pending:
        at = position.current or "base"
        raise ConfigError(f"nothing is pending: the clone is at {at}, so there is nothing to rehearse")
    return [("upgrade", target) for target in ends(chain, pending)]


def _watched(job: Job, steps: Sequence[Step], tables: Sequence[Table], trace: Trace) -> Seen:
    watcher = Watcher(job.clone, tables, trace)
    try:
        with child(job, steps) as process:
            seen = watcher.watch(process.stdout)
            require_told(process, trace)
            return seen
    finally:
        watcher.close()


def _listened(job: Job, steps: Sequence[Step], trace: Trace) -> Seen:
    """Listen to the child alone: on SQLite the locks are the file's."""
    with child(job, steps) as process:
        listen(process, trace)
    return Seen()


def _put_together(
    job: Job, position: Position, trace: Trace, seen: Seen, tables: Sequence[Table]
) -> Rehearsal:
    revisions = attribute(trace, seen, tables)
    names = {table.oid: table.name for table in tables}
    vacuumed = {each.oid for each in seen.sightings if each.by == AUTOVACUUM}
    strong = {table.table for each in revisions for table in each.tables if STRONGEST in table.modes}
    locked = [table for table in tables if table.name in strong]
    oldest: dict[str, float | None] = {}
    if job.production is not None and locked:
        oldest = oldest_transactions(job.production, locked)
    return Rehearsal(
        job.clone_name,
        server_version(job.clone),
        position.current,
        _where(job),
        0.0,
        seen.noise_s * 1000,
        revisions,
        trace.failure,
        seen.not_probed,
        tuple(sorted(names[oid] for oid in vacuumed)),
        shown(job.production) if job.production is not None else None,
        oldest,
        sum(table.rows for table in tables),
        locks_file=job.clone.get_backend_name() == "sqlite",
    )


def _where(job: Job) -> str | None:
    with db.reader(job.clone) as connection:
        return job.locate(connection).current
