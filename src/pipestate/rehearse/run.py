"""Rehearsal: run the pending revisions on the clone, measure them beside the watcher, and judge them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database import connections as db
from pipestate.database.engines import choose, engine_of
from pipestate.database.urls import shown
from pipestate.project.graph import Chain, Position, ends
from pipestate.project.phases import resolve_opens
from pipestate.rehearse.attribute import AUTOVACUUM, attribute
from pipestate.rehearse.blocking_reader import find_exclusive_requests, run_beside_readers, with_encounters
from pipestate.rehearse.child_process import Step, child, listen, refusal, require_told, run_child
from pipestate.rehearse.clone import (
    Job,
    Table,
    adopt_records,
    migrated,
    require_clone,
    server_version,
    tables_of,
    vacuum,
)
from pipestate.rehearse.contents import come_back, read_contents, require_way_back
from pipestate.rehearse.impact import LimitFinding, PhaseOutcome, Rehearsal
from pipestate.rehearse.judge import judge, judge_file
from pipestate.rehearse.production import (
    as_record,
    beside_production,
    files_of,
    require_recordable,
    write_record,
)
from pipestate.rehearse.scratch_copy import ScratchCopy, scratch_copy
from pipestate.rehearse.trace import Begins, Trace, no_progress
from pipestate.rehearse.watch import Seen, Watcher
from pipestate.rehearse.writes import Before, try_after, try_before
from pipestate.runbook.files import every_runbook
from pipestate.verify.report import Gate, PhaseReport
from pipestate.verify.run import verify
from pipestate.verify.select import find_phases

Say = Callable[[str], None]
SEEN_OTHERWISE = "--there-and-back tries it"


def measure(
    job: Job, position: Position, steps: Sequence[Step], tables: Sequence[Table], trace: Trace
) -> Rehearsal:
    """Upgrade the clone and return the impact; raise if no revision began."""
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
    """Follow the child without a watcher: SQLite locks the whole file."""
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


def rehearse(
    job: Job,
    wanted: Sequence[str],
    limit_ms: float | None = None,
    say: Say = print,
    *,
    since: Sequence[str] = (),
    there_and_back: bool = False,
    record: bool = False,
    begins: Begins = no_progress,
) -> Rehearsal:
    """Run the pending revisions on the clone, watch them, and return their impact.

    Revisions up to `since` are applied first, and not judged. `say` gets each part, `begins` each revision of the
    measured run.
    """
    if record:
        require_recordable(job)
    position = require_clone(job.clone, job.production, job.locate)
    needed = pending_revisions(job.chain, position, wanted, since)
    files = files_of(job, needed) if record else {}
    with migrated(job.clone):
        position = apply_unjudged(job, position, since, say)
        steps: list[Step] = [
            ("upgrade", target) for target in ends(job.chain, [job.chain.by_id[each] for each in needed])
        ]
        down = require_way_back(job, position, wanted) if there_and_back else None
        tables, before = _prepared(job, say)
        made = _rehearsed(job, position, steps, tables, before, down, say, begins)
    if job.production is not None and tables:
        made = beside_production(job.production, made, tables)
    made = replace(made, limit_ms=limit_ms, findings=_judged(made, limit_ms))
    if record:
        write_record(job, as_record(made, files))
    return made


def pending_revisions(
    chain: Chain, position: Position, wanted: Sequence[str], since: Sequence[str] = ()
) -> list[str]:
    """List the revisions to judge; raise ConfigError if there are none."""
    needed = chain.ancestors(wanted) - position.applied - chain.ancestors(since)
    if needed:
        return [revision.id for revision in chain if revision.id in needed]
    behind = f" behind {', '.join(since)}" if since else ""
    at = position.current or "base"
    raise ConfigError(f"nothing is pending{behind}: the clone is at {at}, so there is nothing to rehearse")


def apply_unjudged(job: Job, position: Position, since: Sequence[str], say: Say) -> Position:
    """Apply the revisions up to `since`; return the clone's revision."""
    older = job.chain.ancestors(since) - position.applied
    if not older:
        return position
    targets = ends(job.chain, [job.chain.by_id[each] for each in older])
    say(f"upgrading the clone to {', '.join(targets)}, without judging it")
    failure = run_child(job, [("upgrade", target) for target in targets]).failure
    if failure is not None:
        error = PipestateError(f"nothing was rehearsed: a revision up to --from failed: {failure.message}")
        error.exit_code = failure.exit_code
        raise error
    with db.reader(job.clone) as connection:
        return job.locate(connection)


def _rehearsed(
    job: Job,
    position: Position,
    steps: Sequence[Step],
    tables: Sequence[Table],
    writes: Before,
    down: Step | None,
    say: Say,
    begins: Begins,
) -> Rehearsal:
    phases = _verified(job)
    before = read_contents(job.clone) if down is not None else None
    with _copied(job, down, say) as copy:
        targets = ", ".join(target for _, target in steps)
        say(f"upgrading the clone from {position.current or 'base'} to {targets}")
        made = measure(job, position, steps, tables, Trace(begins=begins))
        made = replace(made, phases=_paired(phases, _verified(job)) if phases else ())
        if made.failure is not None:
            return made
        if writes.samples or writes.empty:
            made = replace(made, writes=try_after(job.clone, writes))
        if down is not None and before is not None:
            say(f"back to {down[1]}, and up again beside a blocking reader")
            requests = find_exclusive_requests(made.revisions, tables)
            encounters, returned = come_back(job, down, steps, before, requests)
            return replace(
                made, revisions=with_encounters(made.revisions, encounters, tables), returned=returned
            )
        return _beside_readers(job, steps, made, tables, copy, say)


def _verified(job: Job) -> dict[str, PhaseReport]:
    """Run the checks of all runbooks on the clone, read-only."""
    books = resolve_opens(job.chain, every_runbook(job.project.runbooks), job.project.named)
    if not books:
        return {}
    report = verify(job.clone, find_phases(books), job.locate)
    return {f"{runbook.name}/{phase.name}": phase for runbook, phase in report.phases()}


def _paired(before: dict[str, PhaseReport], after: dict[str, PhaseReport]) -> tuple[PhaseOutcome, ...]:
    """Pair the phases that apply before or after the upgrade."""
    return tuple(
        PhaseOutcome(name, before[name], after[name])
        for name in before
        if {before[name].gate, after[name].gate} & {Gate.OPEN, Gate.CLOSED}
    )


def _prepared(job: Job, say: Say) -> tuple[list[Table], Before]:
    """Try today's writes, prepare the clone for measuring, and list its tables."""
    if engine_of(job.clone).IS_FILE:
        return [], Before()
    adopt_records(job.clone)
    say("one UPDATE, INSERT and DELETE for each table, rolled back")
    before = try_before(job.clone, tables_of(job.clone))
    say("VACUUM ANALYZE of the clone")
    vacuum(job.clone)
    return tables_of(job.clone), before


@contextmanager
def _copied(job: Job, down: Step | None, say: Say) -> Iterator[ScratchCopy]:
    """Copy the clone in its present state, unless the rehearsal returns to it anyway."""
    copies = not engine_of(job.clone).IS_FILE and down is None
    if copies:
        say("a copy of the clone, for a second run beside a blocking reader")
    with scratch_copy(job.clone) if copies else nullcontext(ScratchCopy(None)) as copy:
        yield copy


def _beside_readers(
    job: Job, steps: Sequence[Step], made: Rehearsal, tables: Sequence[Table], copy: ScratchCopy, say: Say
) -> Rehearsal:
    """Run the upgrade once more on the copy, beside blocking readers of the tables it locks."""
    requests = find_exclusive_requests(made.revisions, tables)
    if copy.url is None or not requests:
        reason = f"{copy.why_not}; {SEEN_OTHERWISE}" if copy.why_not and requests else None
        return replace(made, not_tried=reason)
    say("upgrading the copy, beside a blocking reader")
    second = run_beside_readers(replace(job, clone=copy.url), steps, requests)
    made = replace(made, revisions=with_encounters(made.revisions, second.encounters, tables))
    if second.failure is None:
        return made
    return replace(made, not_tried=f"the second run stopped: {second.failure.message}")


def _judged(made: Rehearsal, limit_ms: float | None) -> tuple[LimitFinding, ...]:
    if limit_ms is None:
        return ()
    if made.locks_file:
        return judge_file(made.revisions, limit_ms)
    return judge(made.revisions, limit_ms, made.noise_floor_ms)
