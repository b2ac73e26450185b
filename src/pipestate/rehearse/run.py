"""Rehearsal: run the pending revisions on the clone, measure them beside the watcher, and judge them.

Production gives figures for comparison. With `record`, the result is written into its ledger.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import URL, text

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.queries import named_query
from pipestate.database.urls import shown
from pipestate.ledger.state import require_ledger
from pipestate.project.file_hashes import code_of, hash_files
from pipestate.project.graph import Chain, Position, ends
from pipestate.project.phases import resolve_opens
from pipestate.rehearse.attribute import AUTOVACUUM, attribute
from pipestate.rehearse.blocking_reader import (
    ScratchCopy,
    find_exclusive_requests,
    run_beside_readers,
    scratch_copy,
    with_encounters,
)
from pipestate.rehearse.child_process import (
    Begins,
    Step,
    Trace,
    child,
    listen,
    no_progress,
    refusal,
    require_told,
    run_child,
)
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
from pipestate.rehearse.impact import STRONGEST, PhaseOutcome, Rehearsal, judge
from pipestate.rehearse.watch import Seen, Watcher
from pipestate.rehearse.writes import Before, try_after, try_before
from pipestate.runbook.files import every_runbook
from pipestate.verify.checks import find_phases
from pipestate.verify.report import Gate, PhaseReport
from pipestate.verify.run import verify

if TYPE_CHECKING:
    from pipestate.ledger.record import Rehearsed  # other rehearsals do not load it

OLDEST = text(named_query("rehearse", "oldest_transaction"))
ROWS = text(named_query("rehearse", "planned_rows"))
Say = Callable[[str], None]
SEEN_OTHERWISE = "--there-and-back tries it"


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
    if limit_ms is not None:
        made = replace(made, limit_ms=limit_ms, findings=judge(made, limit_ms))
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


def require_way_back(job: Job, position: Position, wanted: Sequence[str]) -> Step:
    """Return the downgrade target; raise ConfigError if one command cannot undo the upgrade."""
    current = position.current
    pending = job.chain.ancestors(wanted) - position.applied
    if current is None:
        return ("downgrade", "base")
    if current in job.chain and all(current in job.chain.ancestors([revision]) for revision in pending):
        return ("downgrade", current)
    raise ConfigError(
        f"--there-and-back needs one revision to go back to, and this clone is at {current}, which is not below all that "
        "is pending: rehearse one branch with --to"
    )


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
    back = None
    if down is not None:
        from pipestate.rehearse.contents import WayBack  # other rehearsals do not load it

        back = WayBack(job, down, steps)
    copies = (
        not engine_of(job.clone).IS_FILE and down is None
    )  # else the rehearsal returns to this state anyway
    if copies:
        say("a copy of the clone, for a second run beside a blocking reader")
    with scratch_copy(job.clone) if copies else nullcontext(ScratchCopy(None)) as copy:
        targets = ", ".join(target for _, target in steps)
        say(f"upgrading the clone from {position.current or 'base'} to {targets}")
        made = measure(job, position, steps, tables, Trace(begins=begins))
        made = replace(made, phases=_paired(phases, _verified(job)) if phases else ())
        if made.failure is not None:
            return made
        if writes.samples or writes.empty:
            made = replace(made, writes=try_after(job.clone, writes))
        requests = find_exclusive_requests(made.revisions, tables)
        if back is not None:
            say(f"back to {back.down[1]}, and up again beside a blocking reader")
            found, returned = back.come_back(requests)
            made = replace(made, returned=returned)
        elif copy.url is None or not requests:
            reason = f"{copy.why_not}; {SEEN_OTHERWISE}" if copy.why_not and requests else None
            return replace(made, not_tried=reason)
        else:
            say("upgrading the copy, beside a blocking reader")
            found, failure = run_beside_readers(replace(job, clone=copy.url), steps, requests)
            if failure is not None:
                made = replace(made, not_tried=f"the second run stopped: {failure.message}")
        return replace(made, revisions=with_encounters(made.revisions, found, tables))


def measure(
    job: Job, position: Position, steps: Sequence[Step], tables: Sequence[Table], trace: Trace
) -> Rehearsal:
    """Upgrade the clone and return the impact; raise if no revision began."""
    start = time.monotonic()
    seen = _watched(job, steps, tables, trace)
    if not trace.begun and trace.failure is not None:
        raise refusal(trace)
    vacuumed = {each.oid for each in seen.sightings if each.by == AUTOVACUUM}
    return Rehearsal(
        job.clone_name,
        server_version(job.clone),
        position.current,
        job.where(),
        (time.monotonic() - start) * 1000,
        seen.noise_s * 1000,
        attribute(trace, seen, tables),
        trace.failure,
        seen.not_probed,
        tuple(sorted(table.name for table in tables if table.oid in vacuumed)),
        shown(job.production) if job.production is not None else None,
        rows=sum(table.rows for table in tables),
        locks_file=engine_of(job.clone).IS_FILE,
    )


def _watched(job: Job, steps: Sequence[Step], tables: Sequence[Table], trace: Trace) -> Seen:
    """Follow the child beside a watcher; SQLite needs none, because it locks the whole file."""
    if engine_of(job.clone).IS_FILE:
        with child(job, steps, measured=True) as process:
            listen(process, trace)
        return Seen()
    watcher = Watcher(job.clone, tables, trace)
    try:
        with child(job, steps, measured=True) as process:
            seen = watcher.watch(process.stdout)
            require_told(process, trace)
            return seen
    finally:
        watcher.close()


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


# Production: its figures, and the record of a rehearsal in its ledger.


def oldest_transactions(production: URL, tables: Sequence[Table]) -> dict[str, float | None]:
    """Return the age of production's oldest transaction on each table, in seconds, or None."""
    with db.reader(production) as connection:
        return {table.name: connection.execute(OLDEST, {"name": table.quoted}).scalar() for table in tables}


def count_rows(production: URL, tables: Sequence[Table]) -> dict[str, int]:
    """Return the planner's row count of each production table; if never analysed, an estimate by size."""
    with db.reader(production) as connection:
        found = {table: connection.execute(ROWS, {"name": table.quoted}).one_or_none() for table in tables}
    return {table.name: _rows(table, row.rows, row.bytes) for table, row in found.items() if row is not None}


def _rows(table: Table, rows: int | None, count: int) -> int:
    """Estimate the rows from the size, at the clone's density; a file with content has at least one row.

    >>> _rows(Table(1, "t", "t", rows=100, bytes=8192, file=None), None, 81920)
    1000
    """
    return rows if rows is not None else max(1, table.rows * count // max(table.bytes, 1))


def beside_production(production: URL, made: Rehearsal, tables: Sequence[Table]) -> Rehearsal:
    """Add production's rows to the impact, and its oldest transaction on each locked table."""
    locked = {each.table for each in made.tables if STRONGEST in each.modes}
    touched = {each.table for each in made.tables}
    known = count_rows(production, [table for table in tables if table.name in touched])
    oldest = oldest_transactions(production, [table for table in tables if table.name in locked])
    return replace(
        made,
        oldest=oldest,
        revisions=tuple(
            replace(
                revision,
                tables=tuple(
                    replace(each, production_rows=known.get(each.table)) for each in revision.tables
                ),
            )
            for revision in made.revisions
        ),
    )


def require_recordable(job: Job) -> None:
    """Refuse, before anything runs, a rehearsal that could not be recorded."""
    with db.reader(_production(job)) as connection:
        job.locate(connection)
        require_ledger(connection)


def files_of(job: Job, pending: Sequence[str]) -> dict[str, str]:
    """Hash the code of the pending revisions before it runs; refuse unknown code."""
    paths = {revision: job.chain.by_id[revision].path for revision in pending}
    for revision, path in paths.items():
        unknown = code_of(path).unknown
        if unknown is not None:
            raise ConfigError(
                f"{revision} cannot be recorded: {unknown}, so a record could not say which code ran; "
                "import it by name, or leave out --record"
            )
    return hash_files(paths)


def as_record(made: Rehearsal, files: Mapping[str, str]) -> "Rehearsed":
    """Build the ledger's row of a rehearsal; after a failure or a guess, no check passes."""
    from pipestate.ledger.record import Rehearsed

    failed = made.failure is not None or bool(made.writes.broken)
    return Rehearsed(
        revision=made.before,
        target=made.after,
        files=dict(files),
        clone=made.clone,
        ok=made.exit_code == 0,
        duration_ms=round(made.duration_ms, 1),
        rows=made.rows,
        longest_stall_ms=None if failed or made.beyond else round(made.longest_stall_ms, 1),
        noise_ms=round(made.noise_ms, 1),
        bounded=None if failed else made.bounded,
        tables={table.table: table.rows for table in made.tables},
        scale=None if made.beyond else max((table.scale or 1.0 for table in made.tables), default=1.0),
    )


def write_record(job: Job, done: "Rehearsed") -> None:
    """Write the result into production's ledger."""
    from pipestate.ledger.record import record_rehearsal

    with db.writer(_production(job)) as connection:
        job.locate(connection)
        record_rehearsal(connection, done)


def _production(job: Job) -> URL:
    if job.production is None:
        raise ConfigError(
            "--record writes into production's ledger, and no production is known: name it with --database-url"
        )
    return job.production
