"""`python -m pipestate.rehearse.child`: migrates the clone, and tells on its stdout what it does.

1. It reads the job on stdin: the clone, the project, the steps. A password stands in no command line.
2. Where it is measured, it runs env.py once with nothing to do: that is what an empty revision would show.
3. It runs the steps, through env.py and with every gate passed, on that database or on none. Where the job has
   statements, it prepares them before and after each step. Where somebody must be met, it waits before each
   revision for a line on stdin.

What env.py and the revisions print goes to stderr.
"""

import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, InvalidRequestError

from pipestate.chain.project import Named, Project, find_project
from pipestate.config import parse_url, without_secrets
from pipestate.ddl.failure import explain
from pipestate.drivers import sqlstate
from pipestate.environment.same_database import only_on
from pipestate.environment.upgrade import alembic_config
from pipestate.errors import PipestateError
from pipestate.gate.online import TELL
from pipestate.rehearse.prepare import prepare
from pipestate.rehearse.recorder import Recorder, Tell, recording
from pipestate.verify.report import Report

REASON = "a rehearsal on a clone"
EMPTY_S = 0.5


def main() -> int:
    """Do the job that stdin holds; how it ended is told, not returned."""
    tell = _teller()
    job = json.loads(sys.stdin.readline())
    url = parse_url(job["url"])
    project = find_project(_named(job["project"]))
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
    """Keep stdout for messages; whatever else is printed goes to stderr."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(what: str, **values: Any) -> None:
        channel.write(json.dumps({"what": what, **values}) + "\n")
        channel.flush()

    return tell


def _named(given: Mapping[str, Any]) -> Named:
    path = {name: Path(given[name]) if given[name] else None for name in ("config", "scripts")}
    return Named(path["config"], given["section"], path["scripts"], given["shipped"])


def _migrate(job: Mapping[str, Any], url: URL, project: Project, recorder: Recorder) -> None:
    config = alembic_config(project, url)
    config.cmd_opts = Namespace(x=[f"force={REASON}"])
    config.attributes[TELL] = _gate_teller(recorder.tell)
    with only_on(url), recording(recorder):
        if job["measured"]:
            recorder.tell("empty", at=time.monotonic())
            _run_nothing(config)
        _tell_prepared(job, url, recorder, None)
        for direction, target in job["steps"]:
            getattr(command, direction)(config, target)
            _tell_prepared(job, url, recorder, target)


def _tell_prepared(job: Mapping[str, Any], url: URL, recorder: Recorder, after: str | None) -> None:
    """Tell how the statements of today are understood now."""
    if job["statements"]:
        with recorder.silent():
            found = [[each.error, each.columns] for each in prepare(url, job["statements"])]
        recorder.tell("prepared", after=after, found=found)


def _gate_teller(tell: Tell) -> Any:
    def told(revision: str, report: Report) -> None:
        for runbook, phase in report.phases():
            failing = [verdict.check_id for verdict in phase.checks if verdict.closes]
            tell(
                "gate",
                revision=revision,
                gate=f"{runbook.name}/{phase.name}",
                state=str(phase.gate),
                failing=failing,
            )

    return told


def _run_nothing(config: Config) -> None:
    """Run env.py with nothing to do, and wait until it has been watched long enough."""
    end = time.monotonic() + EMPTY_S
    script = ScriptDirectory.from_config(config)
    with EnvironmentContext(config, script, fn=lambda _revision, _context: [], dont_mutate=True):
        script.run_env()
    time.sleep(max(end - time.monotonic(), 0))


def _cause(error: BaseException) -> BaseException:
    """Find what went wrong, where SQLAlchemy only says that it cannot go on."""
    while isinstance(error, InvalidRequestError) and error.__context__ is not None:
        error = error.__context__
    return error


def _state(error: BaseException) -> str | None:
    """Read the server's code, also of an error that was told in other words."""
    cause: BaseException | None = _cause(error)
    while cause is not None and not isinstance(cause, DBAPIError):
        cause = cause.__cause__
    return sqlstate(cause) if cause is not None else None


def _sentence(error: BaseException, url: URL) -> str:
    """Say what went wrong in one sentence."""
    error = _cause(error)
    if isinstance(error, DBAPIError):
        return explain(error, url).partition(";")[0]
    if isinstance(error, CommandError | PipestateError):
        return str(error)
    return without_secrets(f"{type(error).__name__}: {error}", url)


if __name__ == "__main__":
    sys.exit(main())
