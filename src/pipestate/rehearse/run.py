"""A rehearsal from beginning to end."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import URL

from pipestate import db
from pipestate.chain.graph import Chain
from pipestate.chain.position import Position
from pipestate.chain.project import Project
from pipestate.chain.stretch import ends
from pipestate.chain.version_table import Locator
from pipestate.config import shown
from pipestate.errors import ConfigError, Unreachable
from pipestate.rehearse.attribute import AUTOVACUUM, attribute
from pipestate.rehearse.clone import (
    Table,
    oldest_transactions,
    require_clone,
    server_version,
    tables_of,
    vacuum,
)
from pipestate.rehearse.felt import STRONGEST, Rehearsal
from pipestate.rehearse.judge import judge, judge_file
from pipestate.rehearse.trace import Trace
from pipestate.rehearse.watch import Seen, Watcher

Step = tuple[str, str]  # a command of Alembic, and its target


@dataclass(frozen=True, slots=True)
class Job:
    """What is rehearsed where; without a known production there is nothing to compare the clone with."""

    clone: URL
    production: URL | None
    project: Project
    chain: Chain
    locate: Locator


def rehearse(
    job: Job, wanted: Sequence[str], limit_ms: float | None = None, say: Callable[[str], None] = print
) -> Rehearsal:
    """Run the pending revisions on the clone, watch them, and say what was felt."""
    position = require_clone(job.clone, job.production, job.locate)
    steps = pending_steps(job.chain, position, wanted)
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
        raise _refused(trace)
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


@contextmanager
def child(job: Job, steps: Sequence[Step]) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the process that migrates; ended with us, however we end."""
    url = job.clone.render_as_string(hide_password=False)
    named = job.project.named
    project = {
        "config": str(job.project.config) if job.project.config and not named.shipped else None,
        "section": named.section,
        "scripts": str(named.scripts) if named.scripts else None,
        "shipped": named.shipped,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pipestate.rehearse.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PIPESTATE_DATABASE_URL": url, "DATABASE_URL": url},
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps({"url": url, "project": project, "steps": steps}).encode())
        process.stdin.close()
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _watched(job: Job, steps: Sequence[Step], tables: Sequence[Table], trace: Trace) -> Seen:
    watcher = Watcher(job.clone, tables, trace)
    try:
        with child(job, steps) as process:
            seen = watcher.watch(process.stdout)
            _require_told(process, trace)
            return seen
    finally:
        watcher.close()


def _listened(job: Job, steps: Sequence[Step], trace: Trace) -> Seen:
    """Listen to the child alone: on SQLite the locks are the file's."""
    with child(job, steps) as process:
        listen(process, trace)
    return Seen()


def listen(process: "subprocess.Popen[bytes]", trace: Trace) -> None:
    """Take what the child tells until its end."""
    assert process.stdout is not None
    for line in process.stdout:
        trace.take(json.loads(line))
    _require_told(process, trace)


def _require_told(process: "subprocess.Popen[bytes]", trace: Trace) -> None:
    code = process.wait()
    if trace.done_at is None and trace.failure is None:
        raise Unreachable(
            f"the process that migrates the clone ended with {code} before it was done: what it printed stands above; "
            "the clone may be half migrated, take a new one"
        )


def _refused(trace: Trace) -> Exception:
    assert trace.failure is not None
    kind = ConfigError if trace.failure.exit_code == ConfigError.exit_code else Unreachable
    return kind(f"nothing was rehearsed: {trace.failure.message}")


def _put_together(
    job: Job, position: Position, trace: Trace, seen: Seen, tables: Sequence[Table]
) -> Rehearsal:
    revisions = attribute(trace, seen, tables)
    names = {table.oid: table.name for table in tables}
    vacuumed = {each.oid for each in seen.sightings if each.by == AUTOVACUUM}
    locked = [table for each in revisions for table in each.tables if STRONGEST in table.modes]
    oldest: dict[str, float | None] = {}
    if job.production is not None and locked:
        oldest = oldest_transactions(job.production, [table.table for table in locked])
    return Rehearsal(
        shown(job.clone),
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
        locks_file=job.clone.get_backend_name() == "sqlite",
    )


def _where(job: Job) -> str | None:
    with db.reader(job.clone) as connection:
        return job.locate(connection).current
