"""The statements that the code of today runs, before and after the pending revisions."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pipestate.config import shown
from pipestate.engines.engine import engine_of
from pipestate.errors import ConfigError
from pipestate.ledger.rehearsals import COMPAT, Rehearsed
from pipestate.plural import many
from pipestate.rehearse.child_process import refusal, run_child
from pipestate.rehearse.clone import migrated, require_clone
from pipestate.rehearse.job import Job
from pipestate.rehearse.prepare import Prepared, prepare
from pipestate.rehearse.recorded import files_of, require_recordable, write_record
from pipestate.rehearse.statements import Reason, find_reason
from pipestate.rehearse.trace import Begins, Failure, Trace, untold


@dataclass(frozen=True, slots=True)
class ToldStatement:
    """A statement and what is to be said of it; `revision` did it, in the file `path`."""

    statement: str
    what: str
    revision: str | None = None
    path: str | None = None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Compat:
    """What becomes of today's statements."""

    clone: str
    before: str | None
    after: str | None
    statements: int
    broken: tuple[ToldStatement, ...]
    changed: tuple[ToldStatement, ...]
    unprepared: tuple[ToldStatement, ...]
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
    record: bool = False,
    begins: Begins = untold,
) -> Compat:
    """Prepare the statements on the clone before and after each pending revision."""
    if record:
        require_recordable(job)
    if engine_of(job.clone).IS_FILE:
        raise ConfigError(f"{shown(job.clone)} is not PostgreSQL: compat prepares statements on a server")
    position = require_clone(job.clone, job.production, job.locate)
    needed = job.chain.ancestors(wanted) - position.applied
    steps = [("upgrade", revision.id) for revision in job.chain if revision.id in needed]
    if not steps:
        raise ConfigError(f"nothing is pending: the clone is at {position.current or 'base'}")
    _require_some(given, prepare(job.clone, given))
    files = files_of(job, position, wanted) if record else {}
    counted = many(len(steps), "revision")
    say(f"preparing {many(len(given), 'statement')} before and after {counted}")
    start = time.monotonic()
    with migrated(job.clone):
        trace = run_child(job, steps, given, begins)
        if not trace.prepared or (len(trace.prepared) == 1 and not trace.begun):
            raise refusal(trace)
        made = compare(job, position.current, given, trace)
    made = replace(made, duration_ms=(time.monotonic() - start) * 1000)
    if record:
        write_record(job, _as_record(made, files))
    return made


def _as_record(made: Compat, files: Mapping[str, str]) -> Rehearsed:
    """Choose what the ledger keeps; where a revision failed, nobody knows what the later ones break."""
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
    )


def _require_some(given: Sequence[str], found: Sequence[Prepared]) -> None:
    if all(each.error for each in found):
        raise ConfigError(
            f"none of the {len(given)} statements can be prepared on the clone as it is, so there is nothing to compare: "
            f"{found[0].error} (parameters are written $1, $2)"
        )


def compare(job: Job, before: str | None, given: Sequence[str], trace: Trace) -> Compat:
    """Say what broke and what returns other columns, and which revision did it."""
    first = trace.prepared[0][1]
    unprepared = tuple(
        ToldStatement(statement, each.error, reason=find_reason(statement, each.error))
        for statement, each in zip(given, first, strict=True)
        if each.error
    )
    broken: list[ToldStatement] = []
    changed: list[ToldStatement] = []
    for number, statement in enumerate(given):
        states = [(revision, found[number]) for revision, found in trace.prepared]
        last = states[-1][1]
        if states[0][1].error or last == states[0][1]:
            continue
        revision = _culprit(states)
        path = str(job.chain.by_id[revision].path)
        told = ToldStatement(statement, last.error or _difference(states[0][1], last), revision, path)
        (broken if last.error else changed).append(told)
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


def _culprit(states: Sequence[tuple[str | None, Prepared]]) -> str:
    """Find the revision since which a statement is understood as it is at the end."""
    last = states[-1][1]
    culprit = states[-1][0]
    for revision, each in reversed(states):
        if each != last and not (each.error and last.error):
            break
        culprit = revision
    assert culprit is not None
    return culprit


def _difference(before: Prepared, after: Prepared) -> str:
    """Say which columns a statement returns no longer, newly, or with another type."""
    was, now = dict(before.columns or ()), dict(after.columns or ())
    parts = [f"without {name}" for name in was if name not in now]
    parts += [f"with {name} ({kind})" for name, kind in now.items() if name not in was]
    parts += [
        f"{name} as {kind}, not {was[name]}" for name, kind in now.items() if was.get(name, kind) != kind
    ]
    return f"returns {', '.join(parts) or 'its columns in another order'}"
