"""Compatibility of today's statements with the pending revisions: prepared before and after each."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipestate.core.errors import ConfigError
from pipestate.core.text import many
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.urls import shown
from pipestate.ledger.record import COMPAT, Rehearsed
from pipestate.ledger.statements import Objects, changed_names, make_watch, read_objects
from pipestate.rehearse.child_process import Begins, Failure, Trace, no_progress, refusal, run_child
from pipestate.rehearse.clone import Job, migrated, require_clone
from pipestate.rehearse.run import (
    apply_unjudged,
    files_of,
    pending_revisions,
    require_recordable,
    write_record,
)
from pipestate.rehearse.statements import Prepared, Reason, find_reason, prepare


@dataclass(frozen=True, slots=True)
class StatementResult:
    """A statement and its outcome; `revision` caused it, in the file `path`."""

    statement: str
    what: str
    revision: str | None = None
    path: str | None = None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Compat:
    """The outcome for today's statements."""

    clone: str
    before: str | None
    after: str | None
    statements: int
    broken: tuple[StatementResult, ...]
    changed: tuple[StatementResult, ...]
    unprepared: tuple[StatementResult, ...]
    failure: Failure | None = None
    duration_ms: float = 0.0

    @property
    def exit_code(self) -> int:
        return 1 if self.broken or self.failure else 0


def compat(
    job: Job,
    wanted: Sequence[str],
    given: Sequence[str],
    say: Callable[[str], None] = print,
    *,
    since: Sequence[str] = (),
    record: bool = False,
    begins: Begins = no_progress,
) -> Compat:
    """Prepare the statements on the clone before and after each pending revision after `since`."""
    if record:
        require_recordable(job)
    if engine_of(job.clone).IS_FILE:
        raise ConfigError(f"{shown(job.clone)} is not PostgreSQL: compat prepares statements on a server")
    position = require_clone(job.clone, job.production, job.locate)
    needed = pending_revisions(job.chain, position, wanted, since)
    files = files_of(job, needed) if record else {}
    steps = [("upgrade", revision) for revision in needed]
    with migrated(job.clone):
        position = apply_unjudged(job, position, since, say)
    _require_some(given, prepare(job.clone, given))
    counted = many(len(steps), "revision")
    say(f"preparing {many(len(given), 'statement')} before and after {counted}")
    start = time.monotonic()
    before = _objects(job)
    with migrated(job.clone):
        trace = run_child(job, steps, given, begins)
        if not trace.prepared or (len(trace.prepared) == 1 and not trace.begun):
            raise refusal(trace)
        made = compare(job, position.current, given, trace)
    made = replace(made, duration_ms=(time.monotonic() - start) * 1000)
    if record:
        changed = changed_names(before, _objects(job)) if made.failure is None else []
        write_record(job, _as_record(made, files, _watch(job, made, files, changed, given)))
    return made


def _objects(job: Job) -> Objects:
    with db.reader(job.clone) as connection:
        return read_objects(connection)


def _watch(
    job: Job, made: Compat, files: Mapping[str, str], changed: Sequence[str], given: Sequence[str]
) -> Mapping[str, Any] | None:
    """List the statements that `disuse` watches, and those that the revisions leave untouched."""
    touched = {each.statement for each in (*made.broken, *made.changed, *made.unprepared)}
    broken = [(each.statement, each.revision) for each in made.broken]
    assert job.production is not None, "require_recordable has seen it"
    with db.reader(job.production) as connection:
        return make_watch(connection, changed, files, broken, set(given) - touched)


def _as_record(made: Compat, files: Mapping[str, str], watch: Mapping[str, Any] | None) -> Rehearsed:
    """Make the ledger's row; after a failed revision the effect of later ones is unknown."""
    failed = made.failure is not None
    return Rehearsed(
        kind=COMPAT,
        revision=made.before,
        target=made.after,
        files=dict(files),
        clone=made.clone,
        ok=made.exit_code == 0,
        duration_ms=round(made.duration_ms, 1),
        statements=made.statements,
        broken=None if failed else len(made.broken),
        changed=None if failed else len(made.changed),
        unprepared=len(made.unprepared),
        watch=watch,
    )


def _require_some(given: Sequence[str], found: Sequence[Prepared]) -> None:
    if all(each.error for each in found):
        raise ConfigError(
            f"none of the {len(given)} statements can be prepared on the clone as it is, so there is nothing to compare: "
            f"{found[0].error} (parameters are written $1, $2)"
        )


def compare(job: Job, before: str | None, given: Sequence[str], trace: Trace) -> Compat:
    """Find broken statements and changed columns, each with its revision."""
    first = trace.prepared[0][1]
    unprepared = tuple(
        StatementResult(statement, each.error, reason=find_reason(statement, each.error))
        for statement, each in zip(given, first, strict=True)
        if each.error
    )
    broken: list[StatementResult] = []
    changed: list[StatementResult] = []
    for number, statement in enumerate(given):
        states = [(revision, found[number]) for revision, found in trace.prepared]
        if states[0][1].error:
            continue
        errors = [(revision, _error(states[0][1], each)) for revision, each in states]
        was, now = states[0][1], states[-1][1]
        if any(error for _, error in errors):
            revision, what = _breakage(errors)
            broken.append(StatementResult(statement, what, revision, str(job.chain.by_id[revision].path)))
        elif now.columns != was.columns:
            revision = _since(states)
            path = str(job.chain.by_id[revision].path)
            changed.append(StatementResult(statement, _difference(was, now), revision, path))
    return Compat(
        job.clone_name,
        before,
        job.where(),
        len(given),
        tuple(broken),
        tuple(changed),
        unprepared,
        trace.failure,
    )


def _error(first: Prepared, each: Prepared) -> str | None:
    """Return the error of a statement; planning errors count only if planning worked before."""
    return each.error or (each.plan_error if first.plan_error is None else None)


def _breakage(errors: Sequence[tuple[str | None, str | None]]) -> tuple[str, str]:
    """Find the revision that breaks a statement, for good or until a later one, with its error."""
    last = next(number for number in reversed(range(len(errors))) if errors[number][1])
    first = last
    while errors[first - 1][1]:
        first -= 1
    culprit, error = errors[first][0], errors[last][1]
    assert culprit is not None
    repaired = f"; it works again after {errors[last + 1][0]}" if last + 1 < len(errors) else ""
    return culprit, f"{error}{repaired}"


def _since(states: Sequence[tuple[str | None, Prepared]]) -> str:
    """Find the revision from which on a statement returns its final columns."""
    last, culprit = states[-1][1], states[-1][0]
    for revision, each in reversed(states):
        if each.columns != last.columns:
            break
        culprit = revision
    assert culprit is not None
    return culprit


def _difference(before: Prepared, after: Prepared) -> str:
    """Describe lost, new and retyped columns of a statement."""
    was, now = dict(before.columns or ()), dict(after.columns or ())
    parts = [f"without {name}" for name in was if name not in now]
    parts += [f"with {name} ({kind})" for name, kind in now.items() if name not in was]
    parts += [
        f"{name} as {kind}, not {was[name]}" for name, kind in now.items() if was.get(name, kind) != kind
    ]
    return f"returns {', '.join(parts) or 'its columns in another order'}"
