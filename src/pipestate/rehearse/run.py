"""Rehearsal: run the pending revisions on the clone, measure them beside the watcher, and judge them.

Production gives figures for comparison. With `record`, the result is written into its ledger.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import URL

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.queries import named_query
from pipestate.database.urls import shown
from pipestate.ledger.state import require_ledger
from pipestate.project.file_hashes import code_of, hash_files
from pipestate.project.graph import Migrations, Position, ends
from pipestate.project.version_table import Locator
from pipestate.rehearse.attribute import AUTOVACUUM, attribute
from pipestate.rehearse.blocking_reader import (
    ExclusiveRequests,
    find_exclusive_requests,
    run_beside_readers,
    scratch_copy,
    with_encounters,
)
from pipestate.rehearse.child_process import Begins, Step, Trace, no_progress, refusal, run_child
from pipestate.rehearse.clone import Job, Table, adopt_records, migrated, require_clone, tables_of, vacuum
from pipestate.rehearse.impact import LockEncounter, Rehearsal, Return, judge
from pipestate.rehearse.watch import Seen, Watcher
from pipestate.rehearse.writes import Before, try_after, try_before

if TYPE_CHECKING:
    from pipestate.ledger.record import Rehearsed  # other rehearsals do not load it
    from pipestate.rehearse.contents import Contents  # nor this

FIGURES = named_query("rehearse", "production_figures")
Say = Callable[[str], None]


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
    position, needed, files = start(job, wanted, since, say, record=record)
    steps = [
        ("upgrade", target)
        for target in ends(job.migrations, [job.migrations.by_id[each] for each in needed])
    ]
    tables, writes = list[Table](), Before()
    with migrated(job.clone):
        down = require_way_back(job, position, wanted) if there_and_back else None
        if not engine_of(job.clone).IS_FILE:
            adopt_records(job.clone)
            say("one UPDATE, INSERT and DELETE for each table, rolled back")
            writes = try_before(job.clone, tables_of(job.clone))
            say("VACUUM ANALYZE of the clone")
            vacuum(job.clone)
            tables = tables_of(job.clone)
        made = _rehearse(job, position, steps, down, tables, writes, say, begins)
    if job.production is not None and tables:
        made = beside_production(job.production, made, tables)
    if limit_ms is not None:
        made = replace(made, limit_ms=limit_ms, findings=judge(made, limit_ms))
    if record:
        write_record(job, as_record(made, files))
    return made


def start(
    job: Job, wanted: Sequence[str], since: Sequence[str], say: Say, *, record: bool
) -> tuple[Position, list[str], dict[str, str]]:
    """Refuse an unfit clone or record, and apply the revisions up to `since`.

    Return the clone's position, the revisions to judge, and with `record` the hashes of their code.
    """
    if record:
        with db.reader(_production(job)) as connection:
            job.locate(connection)
            require_ledger(connection)
    position = require_clone(job.clone, job.production, job.locate)
    needed = pending_revisions(job.migrations, position, wanted, since, "the clone")
    files = files_of(job, needed) if record else {}
    older = job.migrations.ancestors(since) - position.applied
    if older:
        targets = ends(job.migrations, [job.migrations.by_id[each] for each in older])
        say(f"upgrading the clone to {', '.join(targets)}, without judging it")
        with migrated(job.clone):
            failure = run_child(job, [("upgrade", target) for target in targets]).failure
            if failure is not None:
                error = PipestateError(
                    f"nothing was rehearsed: a revision up to --from failed: {failure.message}"
                )
                error.exit_code = failure.exit_code
                raise error
            with db.reader(job.clone) as connection:
                position = job.locate(connection)
    return position, needed, files


def require_pending(
    production: URL,
    migrations: Migrations,
    locate: Locator,
    wanted: Sequence[str],
    since: Sequence[str] = (),
    *,
    record: bool,
) -> None:
    """Refuse, before a clone is made, a production without pending revisions; with `record`, one without a ledger."""
    with db.reader(production) as connection:
        position = locate(connection)
        if record:
            require_ledger(connection)
    pending_revisions(migrations, position, wanted, since, shown(production))


def pending_revisions(
    migrations: Migrations, position: Position, wanted: Sequence[str], since: Sequence[str], database: str
) -> list[str]:
    """List the revisions to judge; raise ConfigError if there are none."""
    needed = migrations.ancestors(wanted) - position.applied - migrations.ancestors(since)
    if needed:
        return [revision.id for revision in migrations if revision.id in needed]
    behind = f" behind {', '.join(since)}" if since else ""
    at = position.current or "base"
    raise ConfigError(f"nothing is pending{behind}: {database} is at {at}, so there is nothing to rehearse")


def require_way_back(job: Job, position: Position, wanted: Sequence[str]) -> Step:
    """Return the downgrade target; raise ConfigError if one command cannot undo the upgrade."""
    current = position.current
    pending = job.migrations.ancestors(wanted) - position.applied
    if current is None:
        return ("downgrade", "base")
    if current in job.migrations and all(
        current in job.migrations.ancestors([revision]) for revision in pending
    ):
        return ("downgrade", current)
    raise ConfigError(
        f"--there-and-back needs one revision to go back to, and this clone is at {current}, which is not below all that "
        "is pending: rehearse one branch with --to"
    )


def _rehearse(
    job: Job,
    position: Position,
    steps: Sequence[Step],
    down: Step | None,
    tables: Sequence[Table],
    writes: Before,
    say: Say,
    begins: Begins,
) -> Rehearsal:
    """Measure the upgrade, try the writes again, and run a second time beside blocking readers."""
    before = None
    if down is not None:
        from pipestate.rehearse.contents import read_contents

        before = read_contents(job.clone)
    is_copied = not engine_of(job.clone).IS_FILE and down is None  # else it returns to this state anyway
    if is_copied:
        say("a copy of the clone, for a second run while a blocking reader runs")
    with scratch_copy(job.clone) if is_copied else nullcontext((None, None)) as (copy, why_not):
        say(f"upgrading the clone from {position.current or 'base'} to {', '.join(to for _, to in steps)}")
        made = measure(job, position, steps, tables, Trace(begins=begins))
        if made.failure is not None:
            return made
        if writes.samples or writes.empty:
            made = replace(made, writes=try_after(job.clone, writes))
        requests = find_exclusive_requests(made.revisions, tables)
        found: Sequence[LockEncounter] = ()
        if before is not None and down is not None:
            say(f"back to {down[1]}, and up again while a blocking reader runs")
            found, returned = come_back(job, down, steps, before, requests)
            made = replace(made, returned=returned)
        elif copy is not None and requests:
            say("upgrading the copy, while a blocking reader runs")
            found, failure = run_beside_readers(replace(job, clone=copy), steps, requests)
            if failure is not None:
                made = replace(made, not_tried=f"the second run stopped: {failure.message}")
        elif why_not is not None and requests:
            made = replace(made, not_tried=f"{why_not}; --there-and-back tries it")
        return replace(made, revisions=with_encounters(made.revisions, found, tables))


def measure(
    job: Job, position: Position, steps: Sequence[Step], tables: Sequence[Table], trace: Trace
) -> Rehearsal:
    """Upgrade the clone beside a watcher and return the impact; raise if no revision began."""
    begin, seen = time.monotonic(), Seen()
    if engine_of(job.clone).IS_FILE:  # SQLite locks the whole file
        run_child(job, steps, trace, measured=True)
    else:
        with closing(Watcher(job.clone, tables, trace)) as watcher:
            run_child(job, steps, trace, watcher.wait, measured=True)
            seen = watcher.finish()
    if not trace.begun and trace.failure is not None:
        raise refusal(trace)
    vacuumed = {each.oid for each in seen.sightings if each.by == AUTOVACUUM}
    with db.reader(job.clone) as connection:
        version = ".".join(str(part) for part in connection.dialect.server_version_info or ())
        server = f"{connection.dialect.name} {version}".strip()
        after = job.locate(connection).current
    return Rehearsal(
        job.clone_name,
        server,
        position.current,
        after,
        (time.monotonic() - begin) * 1000,
        seen.idle_wait_s * 1000,
        attribute(trace, seen, tables),
        trace.failure,
        seen.not_probed,
        tuple(sorted(table.name for table in tables if table.oid in vacuumed)),
        shown(job.production) if job.production is not None else None,
        rows=sum(table.rows for table in tables),
        locks_file=engine_of(job.clone).IS_FILE,
    )


def come_back(
    job: Job, down: Step, up: Sequence[Step], before: "Contents", requests: ExclusiveRequests
) -> tuple[Sequence[LockEncounter], Return]:
    """Downgrade and compare with the original; upgrade again and compare with the first upgrade.

    The second comparison counts rows only: values computed from the clock differ.
    """
    from pipestate.rehearse.contents import differences, read_contents

    first = read_contents(job.clone)
    failure = run_child(job, [down]).failure
    if failure is not None:
        return (), Return(failure=failure)
    back = tuple(differences(before, read_contents(job.clone)))
    found, failure = run_beside_readers(job, up, requests) if requests else ((), run_child(job, up).failure)
    if failure is not None:
        return found, Return(back, failure=failure)
    return found, Return(back, tuple(differences(first, read_contents(job.clone), rows=False)))


# Production: its figures, and the record of a rehearsal in its ledger.


def beside_production(production: URL, made: Rehearsal, tables: Sequence[Table]) -> Rehearsal:
    """Add to each table its rows in production, and the age of the oldest transaction on it there."""
    touched = {each.table for each in made.tables}
    known = read_figures(production, [table for table in tables if table.name in touched])
    revisions = []
    for revision in made.revisions:
        figures = [(each, known.get(each.table, (None, None))) for each in revision.tables]
        beside = (replace(each, production_rows=rows, oldest_s=age) for each, (rows, age) in figures)
        revisions.append(replace(revision, tables=tuple(beside)))
    return replace(made, revisions=tuple(revisions))


def read_figures(production: URL, tables: Sequence[Table]) -> dict[str, tuple[int, float | None]]:
    """Read the rows of each production table, and the age of its oldest transaction in seconds.

    Rows are the planner's. A table that was never analysed has at least one row, by its size and the clone's density.
    """
    with db.reader(production) as connection:
        found = db.run_own(connection, FIGURES, names=[table.quoted for table in tables])
    known = {row.name: row for row in found}
    return {
        table.name: (
            row.rows if row.rows is not None else max(1, table.rows * row.bytes // max(table.bytes, 1)),
            row.oldest_s,
        )
        for table in tables
        if (row := known.get(table.quoted)) is not None
    }


def files_of(job: Job, pending: Sequence[str]) -> dict[str, str]:
    """Hash the code of the pending revisions before it runs; refuse unknown code."""
    paths = {revision: job.migrations.by_id[revision].path for revision in pending}
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
        longest_wait_ms=None if failed or made.beyond else round(made.longest_wait_ms, 1),
        idle_wait_ms=round(made.idle_wait_ms, 1),
        bounded=None if failed else made.gives_up,
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
