"""Workers of a fleet upgrade: processes that upgrade one tenant after another, one per thread of the parent.

`python -m pipestate.fleet.worker` is the child:

1. Read the job from stdin: the project and the target revision.
2. For each further line, upgrade that tenant through the project's env.py, and write one line about it to stdout.
3. End when stdin closes, hence also when the parent process ends. The current tenant is finished first.

Output of env.py and the revisions is written to stderr. Alembic keeps its state in modules, so each worker is a
process. It loads the project once: later tenants take a fraction of the first one's time.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import IO, TYPE_CHECKING

from pipestate.core.errors import PipestateError, Unreachable
from pipestate.database.interrupt import is_stopped
from pipestate.database.urls import named_in_variables, parse_url, without_secrets
from pipestate.fleet.list import Tenant
from pipestate.project.find import Project, describe, find_described

if TYPE_CHECKING:
    from pipestate.migration.upgrade import Upgrade

POLL_S = 0.2
LAST_WORDS = 4_000  # bytes kept of a dead worker's output


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """The upgrade of one tenant: its revisions as in `TenantUpgrade`, or the error that stopped it.

    `is_other` means that env.py connected to another database.
    """

    applied: Sequence[str] = ()
    waiting: Sequence[tuple[str, str]] = ()
    left_pending: Sequence[str] = ()
    pending_ungated: Sequence[str] = ()
    error: str | None = None
    exit_code: int = 0
    is_other: bool = False


@dataclass
class _Process:
    """A running worker. `printed` is a file, so that the worker never blocks on a full pipe."""

    process: "subprocess.Popen[bytes]"
    printed: IO[bytes]
    served: int = 0
    left: bytes = b""

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()

    def receive(self) -> WorkerAnswer | None:
        """Wait for an answer; return None if the worker has ended. Ctrl-C ends it."""
        assert self.process.stdout is not None
        channel = self.process.stdout.fileno()
        while b"\n" not in self.left:
            if is_stopped():
                self.process.terminate()
                return None
            if select.select([channel], [], [], POLL_S)[0]:
                read = os.read(channel, 1 << 16)
                if not read:
                    return None
                self.left += read
        line, _, self.left = self.left.partition(b"\n")
        self.served += 1
        return WorkerAnswer(**json.loads(line))

    def last_words(self) -> str:
        """Return the last line of the worker's output."""
        self.printed.seek(max(0, self.printed.seek(0, os.SEEK_END) - LAST_WORDS))
        lines = self.printed.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def end(self) -> int:
        """Close stdin, which ends the worker; after Ctrl-C, end it at once."""
        if is_stopped():
            self.process.terminate()
        for channel in (self.process.stdin, self.process.stdout):
            if channel is not None:
                with suppress(OSError):
                    channel.close()
        code = self.process.wait()
        self.printed.close()
        return code


@dataclass
class Workers:
    """One worker per calling thread. `arguments` are those of `-x`, with the tenant's names filled in."""

    project: Project
    target: str
    version_table: str | None = None
    arguments: Sequence[str] = ()
    _own: threading.local = field(default_factory=threading.local)
    _all: list[_Process] = field(default_factory=list)

    def upgrade(self, tenant: Tenant) -> WorkerAnswer:
        """Upgrade a tenant; replace a reused worker that connects to another database. A dead worker is an error."""
        worker = self._worker()
        found = self._exchange(worker, tenant)
        if found is not None and found.is_other and worker.served > 1:
            self._end(worker)
            worker = self._worker()
            found = self._exchange(worker, tenant)
        if found is None:
            words = without_secrets(worker.last_words(), tenant.url)
            code = self._end(worker)
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            said = f"the process that upgraded it ended with {how}: run the same again"
            return WorkerAnswer(error=f"{said} ({words})" if words else said, exit_code=3)
        return found

    def _exchange(self, worker: _Process, tenant: Tenant) -> WorkerAnswer | None:
        names = {"schema": tenant.schema or "", "name": tenant.name, "database": tenant.url.database or ""}
        arguments = list(self.arguments)
        for name, value in names.items():
            arguments = [each.replace(f"{{{name}}}", value) for each in arguments]
        url = tenant.url.render_as_string(hide_password=False)
        worker.send(json.dumps({"url": url, "path": tenant.path, "arguments": arguments}))
        return worker.receive()

    def _worker(self) -> _Process:
        found: _Process | None = getattr(self._own, "worker", None)
        if found is None:
            found = self._own.worker = self._start()
            self._all.append(found)
        return found

    def _start(self) -> _Process:
        printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pipestate.fleet.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=printed,
            process_group=0,  # the parent handles Ctrl-C
        )
        worker = _Process(process, printed)
        job = {"target": self.target, "version_table": self.version_table}
        worker.send(json.dumps({**job, "project": describe(self.project)}))
        return worker

    def _end(self, worker: _Process) -> int:
        self._own.worker = None
        self._all.remove(worker)
        return worker.end()

    @contextmanager
    def open(self) -> Iterator["Workers"]:
        """End all workers when the block ends."""
        try:
            yield self
        finally:
            for worker in list(self._all):
                worker.end()
            self._all.clear()


def main() -> int:
    """Upgrade tenants until stdin ends. Reserve stdout for answers; redirect other output to stderr."""
    from pipestate.migration.upgrade import make_upgrade
    from pipestate.project.graph import find_targets
    from pipestate.project.revision_files import read_migrations
    from pipestate.project.version_table import locator

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    job, environ = json.loads(sys.stdin.readline()), dict(os.environ)
    project = find_described(job["project"])
    ini_url = partial(project.option, "sqlalchemy.url")
    migrations = read_migrations(project)
    locate = locator(project, migrations, job["version_table"])
    shared = make_upgrade(project, migrations, locate, parse_url("postgresql://"))
    wanted = find_targets(migrations, job["target"])
    for line in sys.stdin:
        tenant = json.loads(line)
        url, path, arguments = parse_url(tenant["url"]), tuple(tenant["path"]), tuple(tenant["arguments"])
        os.environ.update(named_in_variables(url, ini_url, environ))
        there = locate.within(path[0]) if path else locate
        found = _upgrade(replace(shared, url=url, locate=there, path=path, arguments=arguments), wanted)
        answers.write(json.dumps(asdict(found)) + "\n")
        answers.flush()
    return 0


def _upgrade(plan: "Upgrade", wanted: Sequence[str]) -> WorkerAnswer:
    """Upgrade a tenant; any error becomes its answer."""
    from sqlalchemy.exc import DBAPIError

    from pipestate.migration.failure import explain
    from pipestate.migration.upgrade import OtherDatabase, upgrade

    try:
        done = upgrade(plan, wanted)
    except PipestateError as error:
        is_other = isinstance(error, OtherDatabase)
        return WorkerAnswer(error=str(error), exit_code=error.exit_code, is_other=is_other)
    except DBAPIError as error:
        return WorkerAnswer(error=explain(error, plan.url), exit_code=Unreachable.exit_code)
    except (Exception, SystemExit) as error:  # env.py and revisions raise many types
        said = without_secrets(f"{type(error).__name__}: {error}", plan.url)
        return WorkerAnswer(error=said, exit_code=Unreachable.exit_code)
    waiting = [
        (revision, f"{runbook.name}/{phase.name}")
        for revision, closed in done.closed.items()
        for runbook, phase in closed.report.phases()
    ]
    return WorkerAnswer(done.applied, waiting, done.left_pending, done.pending_ungated)


if __name__ == "__main__":
    sys.exit(main())
