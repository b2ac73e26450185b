"""`python -m pipestate.rehearse.child`: migrates the clone, and reports on stdout.

1. Read the job from stdin: the clone with its password, the project, the steps.
2. If the run is measured, run env.py once without revisions: the waits seen then are noise.
3. Run the steps through env.py, pass every gate, and refuse any other database. If the job has statements, prepare
   them before and after each step. If the job waits, wait before each revision for a line on stdin.

Output of env.py and the revisions is written to stderr.
"""

import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, InvalidRequestError

from pipestate.core.errors import PipestateError
from pipestate.database.drivers import sqlstate
from pipestate.database.urls import parse_url, without_secrets
from pipestate.migration.failure import explain
from pipestate.migration.gate import gate_listener
from pipestate.migration.upgrade import alembic_config, only_on
from pipestate.project.find import Project, find_described
from pipestate.rehearse.recorder import Recorder, Tell, recording
from pipestate.rehearse.statements import prepare
from pipestate.verify.report import Report

REASON = "a rehearsal on a clone"
EMPTY_S = 0.5


def main() -> int:
    """Run the job from stdin; report its outcome on stdout."""
    tell = _teller()
    job = json.loads(sys.stdin.readline())
    url = parse_url(job["url"])
    project = find_described(job["project"])
    wait = sys.stdin.readline if job["waits"] else str
    recorder = Recorder(tell, project.versions, wait)
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
    gate_listener.set(_gate_teller(recorder.tell))
    with only_on(url), recording(recorder):
        if job["measured"]:
            recorder.tell("empty", at=time.monotonic())
            _run_nothing(config)
        _tell_prepared(job, url, recorder, None)
        for direction, target in job["steps"]:
            getattr(command, direction)(config, target)
            _tell_prepared(job, url, recorder, target)


def _tell_prepared(job: Mapping[str, Any], url: URL, recorder: Recorder, after: str | None) -> None:
    """Report the results of preparing today's statements."""
    if job["statements"]:
        with recorder.silent():
            found = [[each.error, each.columns, each.plan_error] for each in prepare(url, job["statements"])]
        recorder.tell("prepared", after=after, found=found)


def _gate_teller(tell: Tell) -> Any:
    def report_gate(revision: str, report: Report) -> None:
        for runbook, phase in report.phases():
            failing = [verdict.check_id for verdict in phase.checks if verdict.closes]
            tell(
                "gate",
                revision=revision,
                gate=f"{runbook.name}/{phase.name}",
                state=str(phase.gate),
                failing=failing,
            )

    return report_gate


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
