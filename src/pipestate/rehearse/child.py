"""`python -m pipestate.rehearse.child`: migrates the clone, and reports on stdout.

1. Read the job from stdin: the clone with its password, the project, the steps.
2. If the run is measured, run env.py once without revisions: waits up to those seen then are too small to measure.
3. Run the steps through env.py, pass every gate, and refuse any other database. If the job
   waits, wait before each revision for a line on stdin.

The recorder times every statement of a revision, and reads its locks. Output of env.py and the revisions is written
to stderr.
"""

import json
import os
import re
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import RevisionStep
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Engine, event
from sqlalchemy.exc import DBAPIError, InvalidRequestError

from pipestate.core.errors import PipestateError
from pipestate.database.connections import engine_of
from pipestate.database.drivers import sqlstate
from pipestate.database.queries import named_query
from pipestate.database.urls import parse_url, without_secrets
from pipestate.migration.alembic import Steps, wrap_migrations
from pipestate.migration.failure import explain
from pipestate.migration.gate import gate_listener
from pipestate.migration.upgrade import alembic_config, only_on
from pipestate.project.find import Project, find_described
from pipestate.rehearse.child_process import first_word, ini_directory, near
from pipestate.verify.report import Report

Tell = Callable[..., None]

# The session's locks are read after these statements; after reads and writes of rows, only if they took some time.
# Other statements are skipped: a `SET TRANSACTION` must come before any query.
CHANGES = frozenset(
    (
        *("ALTER", "CREATE", "DROP", "LOCK", "DO", "TRUNCATE", "REINDEX", "CLUSTER", "REFRESH", "CALL"),
        *("COMMENT", "VACUUM", "SECURITY"),
    )
)
WRITES = frozenset(["UPDATE", "DELETE", "INSERT", "MERGE", "COPY", "WITH", "SELECT"])
ENDS = frozenset(["COMMIT", "ROLLBACK", "END", "ABORT"])
TO_SAVEPOINT = re.compile(r"(?i)\brollback\s+(work\s+|transaction\s+)?to\b")
LONG_S = 0.005
LONGEST_SQL = 4000

LOCKS = named_query("rehearse", "own_locks")
REASON = "a rehearsal on a clone"
EMPTY_S = 0.5


class Recorder:
    """Reports the statements of each revision, on all connections that its env.py makes."""

    def __init__(
        self, tell: Tell, versions: Sequence[Path], root: Path, wait: Callable[[], object] = str
    ) -> None:
        self.tell = tell
        self.root = root
        self.wait = wait
        self.versions = [path.resolve() for path in versions]
        self.revision: str | None = None
        self._source = ""
        self._start = 0.0
        self._silent = False
        self._path: str = ""
        self._places: dict[str, bool] = {}

    def follow(self, steps: Steps) -> Steps:
        """Begin each revision of a migration."""

        @wraps(steps)
        def followed(heads: Any, context: Any) -> Iterator[Any]:
            for step in steps(heads, context):
                if isinstance(step, RevisionStep):
                    self.begin(step)
                yield step

        return followed

    def begin(self, step: RevisionStep) -> None:
        """Report that a revision begins, and wait for the parent if it wants that."""
        script: Any = step.revision
        self.revision, self._path = str(script.revision), near(str(script.path), self.root)
        self.tell("revision", revision=self.revision, path=self._path, at=time.monotonic())
        self.wait()

    def before(self, *_: Any) -> None:
        """Note the start of a statement, and the line of the revision that runs it."""
        if self.revision is not None and not self._silent:
            self._source = next(self._lines(walk_stack(None)), self._path)
            self._start = time.monotonic()

    def after(self, connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        """Report a finished statement."""
        if self.revision is None or self._silent:
            return
        start, end = self._start, time.monotonic()
        locks = self._locks(connection) if may_lock(statement, end - start) else []
        self.tell(
            "statement",
            revision=self.revision,
            session=_session(connection),
            source=self._source,
            sql=statement[:LONGEST_SQL],
            start=start,
            end=end,
            locks=[row[:3] for row in locks if row[0] is not None],
            lock_timeout_ms=locks[0][3] if locks else None,
        )
        if ends_transaction(statement):
            self.end(connection)

    def end(self, connection: Connection) -> None:
        """Report the end of a transaction and of its locks."""
        if self.revision is not None and not self._silent:
            self.tell("ended", session=_session(connection), at=time.monotonic())

    def line_of(self, error: BaseException) -> str | None:
        """Find the revision's line that raised an error; only its file if other code ran for it."""
        cause: BaseException | None = error
        while cause is not None:
            lines = list(self._lines(walk_tb(cause.__traceback__)))
            if lines:
                return lines[-1]
            cause = cause.__cause__
        return self._path or None

    def _lines(self, frames: Iterable[tuple[FrameType, int]]) -> Iterator[str]:
        """Write those lines that belong to a revision's file."""
        for frame, line in frames:
            if self._is_of_a_revision(frame.f_code.co_filename):
                yield f"{near(frame.f_code.co_filename, self.root)}:{line}"

    def _locks(self, connection: Connection) -> list[list[Any]]:
        """Read the locks of the session; return none for an engine that cannot show them."""
        if engine_of(connection).IS_FILE:
            return []
        self._silent = True  # this statement is our own
        try:
            return [list(row) for row in connection.exec_driver_sql(LOCKS)]
        finally:
            self._silent = False

    def _is_of_a_revision(self, file: str) -> bool:
        if file not in self._places:
            path = Path(file).resolve()
            self._places[file] = any(path.is_relative_to(place) for place in self.versions)
        return self._places[file]


def ends_transaction(statement: str) -> bool:
    """Tell whether a statement ends a transaction; a rollback to a savepoint does not.

    >>> [ends_transaction(each) for each in ("COMMIT", "rollback;", "ROLLBACK TO SAVEPOINT a", "SELECT 1")]
    [True, True, False, False]
    """
    return first_word(statement) in ENDS and not TO_SAVEPOINT.search(statement)


def may_lock(statement: str, seconds: float) -> bool:
    """Tell whether to read the locks after a statement: a SELECT without FROM calls a function."""
    word = first_word(statement)
    calls = word == "SELECT" and " from " not in " ".join(statement.lower().split())
    return word in CHANGES or calls or (word in WRITES and seconds >= LONG_S)


def _session(connection: Connection) -> int:
    return id(connection.connection.dbapi_connection)


def listen(recorder: Recorder) -> None:
    """Follow every engine, and every context that an env.py configures, until the process ends."""
    event.listen(Engine, "before_cursor_execute", recorder.before)
    event.listen(Engine, "after_cursor_execute", recorder.after)
    event.listen(Engine, "commit", recorder.end)
    event.listen(Engine, "rollback", recorder.end)
    configure = EnvironmentContext.configure

    @wraps(configure)
    def configure_followed(self: EnvironmentContext, *arguments: Any, **options: Any) -> None:
        configure(self, *arguments, **options)
        wrap_migrations(self.get_context(), recorder.follow)

    EnvironmentContext.configure = configure_followed  # type: ignore[method-assign]


def main() -> int:
    """Run the job from stdin; report its outcome on stdout."""
    tell = _teller()
    job = json.loads(sys.stdin.readline())
    url = parse_url(job["url"])
    project = find_described(job["project"])
    wait = sys.stdin.readline if job["waits"] else str
    recorder = Recorder(tell, project.versions, ini_directory(project), wait)
    try:
        _migrate(job, url, project, recorder)
        tell("done", at=time.monotonic())
    except (Exception, SystemExit) as error:
        code = 1 if recorder.revision is not None else getattr(error, "exit_code", 3)
        tell(
            "failed",
            message=_sentence(error, url),
            source=recorder.line_of(error),
            exit_code=code,
            sqlstate=_state(error),
        )
    return 0


def _teller() -> Tell:
    """Reserve stdout for messages; redirect other output to stderr."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(what: str, **values: Any) -> None:
        channel.write(json.dumps({"what": what, **values}) + "\n")
        channel.flush()

    return tell


def _migrate(job: Mapping[str, Any], url: URL, project: Project, recorder: Recorder) -> None:
    config = alembic_config(project, url)
    config.cmd_opts = Namespace(x=[f"force={REASON}"])
    gate_listener.set(partial(_tell_gate, recorder.tell))
    listen(recorder)
    with only_on(url):
        if job["measured"]:
            recorder.tell("empty", at=time.monotonic())
            _run_nothing(config)
        for direction, target in job["steps"]:
            getattr(command, direction)(config, target)


def _tell_gate(tell: Tell, revision: str, report: Report) -> None:
    for runbook, phase in report.phases():
        failing = [verdict.check_id for verdict in phase.checks if verdict.closes]
        gate = f"{runbook.name}/{phase.name}"
        tell("gate", revision=revision, gate=gate, state=str(phase.gate), failing=failing)


def _run_nothing(config: Config) -> None:
    """Run env.py without revisions, and wait until it has been watched long enough."""
    end = time.monotonic() + EMPTY_S
    script = ScriptDirectory.from_config(config)
    with EnvironmentContext(config, script, fn=lambda _revision, _context: [], dont_mutate=True):
        script.run_env()
    time.sleep(max(end - time.monotonic(), 0))


def _cause(error: BaseException) -> BaseException:
    """Find the first error, which SQLAlchemy's session error hides."""
    while isinstance(error, InvalidRequestError) and error.__context__ is not None:
        error = error.__context__
    return error


def _state(error: BaseException) -> str | None:
    """Read the server's error code, also from the cause of an error."""
    cause: BaseException | None = _cause(error)
    while cause is not None and not isinstance(cause, DBAPIError):
        cause = cause.__cause__
    return sqlstate(cause) if cause is not None else None


def _sentence(error: BaseException, url: URL) -> str:
    """Describe the error in one sentence."""
    error = _cause(error)
    if isinstance(error, DBAPIError):
        return explain(error, url).partition(";")[0]
    if isinstance(error, CommandError | PipestateError):
        return str(error)
    return without_secrets(f"{type(error).__name__}: {error}", url)


if __name__ == "__main__":
    sys.exit(main())
