"""The statements that the code of today runs, before and after the pending revisions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError

from pipestate import db
from pipestate.config import shown
from pipestate.errors import ConfigError
from pipestate.interrupt import telling
from pipestate.rehearse.child_process import refusal, run_child
from pipestate.rehearse.clone import HALF_MIGRATED, require_clone
from pipestate.rehearse.job import Job
from pipestate.rehearse.prepare import Prepared, prepare
from pipestate.rehearse.trace import Failure, Trace
from pipestate.runbook.statement import statements, tokens

EXTENSION = "pg_stat_statements"
QUERIES = text(
    "SELECT DISTINCT query FROM pg_stat_statements "
    "WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1"
)


@dataclass(frozen=True, slots=True)
class Told:
    """A statement and what is to be said of it; `revision` did it, in the file `path`."""

    statement: str
    what: str
    revision: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Compat:
    """What becomes of today's statements."""

    clone: str
    before: str | None
    statements: int
    broken: tuple[Told, ...]
    changed: tuple[Told, ...]
    unprepared: tuple[Told, ...]
    failure: Failure | None = None

    @property
    def exit_code(self) -> int:
        return 1 if self.broken or self.failure else 0


def compat(job: Job, wanted: Sequence[str], given: Sequence[str], say: Callable[[str], None]) -> Compat:
    """Prepare the statements on the clone before and after each pending revision."""
    if job.clone.get_backend_name() != "postgresql":
        raise ConfigError(f"{shown(job.clone)} is not PostgreSQL: compat prepares statements on a server")
    position = require_clone(job.clone, job.production, job.locate)
    needed = job.chain.ancestors(wanted) - position.applied
    steps = [("upgrade", revision.id) for revision in job.chain if revision.id in needed]
    if not steps:
        raise ConfigError(f"nothing is pending: the clone is at {position.current or 'base'}")
    _require_some(given, prepare(job.clone, given))
    say(f"preparing {len(given)} statements before and after each of {len(steps)} revisions")
    with telling(lambda: HALF_MIGRATED):
        trace = run_child(job, steps, given)
    if not trace.prepared or (len(trace.prepared) == 1 and not trace.begun):
        raise refusal(trace)
    return compare(job, position.current, given, trace)


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
        Told(statement, each.error) for statement, each in zip(given, first, strict=True) if each.error
    )
    broken: list[Told] = []
    changed: list[Told] = []
    for number, statement in enumerate(given):
        states = [(revision, found[number]) for revision, found in trace.prepared]
        last = states[-1][1]
        if states[0][1].error or last == states[0][1]:
            continue
        revision = _culprit(states)
        path = str(job.chain.by_id[revision].path)
        told = Told(statement, last.error or _difference(states[0][1], last), revision, path)
        (broken if last.error else changed).append(told)
    return Compat(
        job.clone_name, before, len(given), tuple(broken), tuple(changed), unprepared, trace.failure
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


def read_statements(source: str, url: URL) -> list[str]:
    """Read the statements of a file, or those that pg_stat_statements has of a database."""
    given = list(_of_server(url) if source == EXTENSION else _of_file(Path(source)))
    if not given:
        raise ConfigError(f"{source} holds no statement: there is nothing to compare")
    return given


def _of_file(path: Path) -> Iterator[str]:
    try:
        written = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: --statements takes a file of SQL, or {EXTENSION}") from error
    for statement in statements(tokens(written, "postgresql")):
        end = statement[-1]
        yield written[statement[0].start : end.start + len(end.text)]


def _of_server(url: URL) -> Iterator[str]:
    if url.get_backend_name() != "postgresql":
        raise ConfigError(f"{shown(url)} has no {EXTENSION}: give a file of SQL")
    with db.reader(url) as connection:
        try:
            found = connection.execute(QUERIES).scalars().all()
        except DBAPIError as error:
            raise ConfigError(
                f"{EXTENSION} cannot be read on {shown(url)}: create the extension, or give --statements a file of SQL"
            ) from error
    yield from (str(each) for each in found)
