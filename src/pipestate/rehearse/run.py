"""A rehearsal from beginning to end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from pipestate.chain.graph import Chain
from pipestate.chain.position import Position
from pipestate.chain.stretch import ends
from pipestate.engines.engine import engine_of
from pipestate.errors import ConfigError
from pipestate.rehearse.child_process import Step
from pipestate.rehearse.clone import Table, migrated, require_clone, tables_of, vacuum
from pipestate.rehearse.contents import read_contents
from pipestate.rehearse.felt import OverLimit, Rehearsal
from pipestate.rehearse.job import Job
from pipestate.rehearse.judge import judge, judge_file
from pipestate.rehearse.measure import measure
from pipestate.rehearse.patient import find_asked, meet, with_meetings
from pipestate.rehearse.phases import ask_phases, pair
from pipestate.rehearse.production import beside_production
from pipestate.rehearse.recorded import as_record, files_of, require_recordable, write_record
from pipestate.rehearse.there_and_back import come_back, require_way_back
from pipestate.rehearse.trace import Begins, Trace, untold
from pipestate.rehearse.twin import Twin, twin_of

Say = Callable[[str], None]
SEEN_OTHERWISE = "--there-and-back tries it"


def rehearse(
    job: Job,
    wanted: Sequence[str],
    limit_ms: float | None = None,
    say: Say = print,
    *,
    there_and_back: bool = False,
    record: bool = False,
    begins: Begins = untold,
) -> Rehearsal:
    """Run the pending revisions on the clone, watch them, and say what was felt.

    `say` is told each part, `begins` each revision of the run that is measured.
    """
    if record:
        require_recordable(job)
    position = require_clone(job.clone, job.production, job.locate)
    steps = pending_steps(job.chain, position, wanted)
    files = files_of(job, position, wanted) if record else {}
    down = require_way_back(job, position, wanted) if there_and_back else None
    with migrated(job.clone):
        tables = _prepared(job, say)
        made = _rehearsed(job, position, steps, tables, down, say, begins)
    if job.production is not None and tables:
        made = beside_production(job.production, made, tables)
    made = replace(made, limit_ms=limit_ms, findings=_judged(made, limit_ms))
    if record:
        write_record(job, as_record(made, files))
    return made


def pending_steps(chain: Chain, position: Position, wanted: Sequence[str]) -> list[Step]:
    """List the upgrades that apply what is wanted and not applied yet; ConfigError where nothing is."""
    needed = chain.ancestors(wanted) - position.applied
    pending = [revision for revision in chain if revision.id in needed]
    if not pending:
        at = position.current or "base"
        raise ConfigError(f"nothing is pending: the clone is at {at}, so there is nothing to rehearse")
    return [("upgrade", target) for target in ends(chain, pending)]


def _rehearsed(
    job: Job,
    position: Position,
    steps: Sequence[Step],
    tables: Sequence[Table],
    down: Step | None,
    say: Say,
    begins: Begins,
) -> Rehearsal:
    phases = ask_phases(job)
    before = read_contents(job.clone) if down is not None else None
    with _copied(job, down, say) as twin:
        targets = ", ".join(target for _, target in steps)
        say(f"upgrading the clone from {position.current or 'base'} to {targets}")
        made = measure(job, position, steps, tables, Trace(begins=begins))
        made = replace(made, phases=pair(phases, ask_phases(job)) if phases else ())
        if made.failure is not None:
            return made
        if down is not None and before is not None:
            say(f"back to {down[1]}, and up again beside a patient reader")
            met, returned = come_back(job, down, steps, before, find_asked(made.revisions, tables))
            return replace(made, revisions=with_meetings(made.revisions, met, tables), returned=returned)
        return _tried(job, steps, made, tables, twin, say)


def _prepared(job: Job, say: Say) -> list[Table]:
    """Make the clone ready to be measured, and list its tables."""
    if engine_of(job.clone).IS_FILE:
        return []
    say("VACUUM ANALYZE of the clone")
    vacuum(job.clone)
    return tables_of(job.clone)


@contextmanager
def _copied(job: Job, down: Step | None, say: Say) -> Iterator[Twin]:
    """Copy the clone as it is now, where it does not come back to this by itself."""
    copies = not engine_of(job.clone).IS_FILE and down is None
    if copies:
        say("a copy of the clone, for a second run beside a patient reader")
    with twin_of(job.clone) if copies else nullcontext(Twin(None)) as twin:
        yield twin


def _tried(
    job: Job, steps: Sequence[Step], made: Rehearsal, tables: Sequence[Table], twin: Twin, say: Say
) -> Rehearsal:
    """Run the upgrade once more on the copy, beside patient readers of what it locks."""
    asked = find_asked(made.revisions, tables)
    if twin.url is None or not asked:
        reason = f"{twin.why_not}; {SEEN_OTHERWISE}" if twin.why_not and asked else None
        return replace(made, not_tried=reason)
    say("upgrading the copy, beside a patient reader")
    meetings = meet(replace(job, clone=twin.url), steps, asked)
    made = replace(made, revisions=with_meetings(made.revisions, meetings.met, tables))
    if meetings.failure is None:
        return made
    return replace(made, not_tried=f"the second run stopped: {meetings.failure.message}")


def _judged(made: Rehearsal, limit_ms: float | None) -> tuple[OverLimit, ...]:
    if limit_ms is None:
        return ()
    if made.locks_file:
        return judge_file(made.revisions, limit_ms)
    return judge(made.revisions, limit_ms, made.noise_floor_ms)
