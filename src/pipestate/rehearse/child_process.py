"""Child process that migrates the clone, as the parent sees it: the process, and the trace of its reports.

Times are `time.monotonic()`, which the two processes share.
"""

import io
import json
import os
import re
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.database.urls import named_in_variables
from pipestate.project.find import Project, describe
from pipestate.rehearse.clone import HALF_MIGRATED, Job

LAST_WORDS_S = 2.0
FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)
Step = tuple[str, str]  # an Alembic command and its target


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock on a table that a session held after a statement; `file` is the table's relfilenode then."""

    oid: int
    mode: str
    file: int | None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a revision. `source` is the line of its file that ran it; only the file if other code ran it."""

    revision: str
    session: int
    source: str
    sql: str
    start: float
    end: float
    locks: tuple[Lock, ...] = ()
    lock_timeout_ms: float | None = None

    @property
    def duration_ms(self) -> float:
        return (self.end - self.start) * 1000

    @property
    def first_words(self) -> str:
        """The beginning of the statement on one line."""
        line = " ".join(self.sql.split())
        return line if len(line) <= 60 else f"{line[:59]}…"


@dataclass(frozen=True, slots=True)
class Begun:
    """A revision that began, and its file."""

    revision: str
    path: str
    at: float


Begins = Callable[[Begun], None]  # called when a revision begins


def no_progress(begun: Begun) -> None:
    """Ignore a revision that begins."""


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The state of a gate for a revision on the clone: its name, `open` or `closed`, and the failed checks."""

    revision: str
    gate: str
    state: str
    failing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that stopped the child: a sentence, the line, the exit code, the server's code."""

    message: str
    source: str | None
    exit_code: int
    sqlstate: str | None = None


@dataclass(slots=True)
class Trace:
    """All reports of the child."""

    statements: list[Statement] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    ended: list[tuple[int, float]] = field(default_factory=list)  # sessions, and ends of their transactions
    gates: list[GateOutcome] = field(default_factory=list)
    failure: Failure | None = None
    empty_at: float | None = None  # from here to the first revision, an empty one is measured
    done_at: float | None = None
    begins: Begins = no_progress

    @property
    def is_empty(self) -> bool:
        """Tell whether env.py runs without revisions, so that its waits are the smallest measurable ones."""
        return self.empty_at is not None and not self.begun

    def take(self, said: Mapping[str, Any]) -> None:
        """Process one message."""
        values = {name: value for name, value in said.items() if name != "what"}
        what = said["what"]
        if what == "statement":
            locks = tuple(Lock(*each) for each in values.pop("locks"))
            self.statements.append(Statement(**values, locks=locks))
        elif what == "revision":
            self.begun.append(Begun(**values))
            self.begins(self.begun[-1])
        elif what == "ended":
            self.ended.append((values["session"], values["at"]))
        elif what == "gate":
            self.gates.append(GateOutcome(**{**values, "failing": tuple(values["failing"])}))
        elif what == "failed":
            self.failure = Failure(**values)
        elif what == "empty":
            self.empty_at = values["at"]
        elif what == "done":
            self.done_at = values["at"]

    def statement_at(self, moment: float) -> Statement | None:
        """Find the statement that ran at a moment, else the last one before it."""
        before = [each for each in self.statements if each.start <= moment]
        return before[-1] if before else None


def first_word(statement: str) -> str:
    """Return the first word of a statement, after comments, in capitals.

    >>> first_word("/* why */ -- who\\n (select 1)"), first_word("")
    ('SELECT', '')
    """
    found = FIRST_WORD.match(statement)
    return found[1].upper() if found else ""


def ini_directory(project: Project) -> Path:
    """Return the directory of the project's ini, or that of its scripts."""
    return (project.config or project.scripts).resolve().parent


def near(file: str, root: Path) -> str:
    """Write a path relative to the working directory, or else to `root`, if it lies below one of them."""
    path = Path(file).resolve()
    place = next((place for place in (Path.cwd(), root) if path.is_relative_to(place)), None)
    return str(path.relative_to(place) if place else path)


def wait_for(pipe: Any) -> bool:
    """Wait until a pipe can be read."""
    return bool(select.select([pipe], [], [])[0])


def run_child(
    job: Job,
    steps: Sequence[Step],
    trace: Trace | None = None,
    wait: Callable[[Any], bool] = wait_for,
    *,
    measured: bool = False,
    waits: bool = False,
) -> Trace:
    """Run the steps on the clone in a process that ends with this one, and collect its reports.

    `wait` returns True when its pipe can be read, and may work meanwhile. With `measured` the process first runs
    without revisions; with `waits` it begins a revision only after `trace.begins` has returned.
    """
    trace = trace or Trace()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "pipestate.rehearse.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        process_group=0,  # the parent handles Ctrl-C: it ends the child and explains the result
        env={
            **os.environ,
            **named_in_variables(job.clone, partial(job.project.option, "sqlalchemy.url"), os.environ),
        },
    )
    pipe: Any = process.stdout
    printed = threading.Thread(target=_pass_on, args=(process.stderr,), daemon=True)
    printed.start()
    given = {"url": job.clone.render_as_string(hide_password=False), "project": describe(job.project)}
    try:
        _send(process, json.dumps({**given, "steps": steps, "measured": measured, "waits": waits}))
        if not waits and process.stdin is not None:
            process.stdin.close()
        os.set_blocking(pipe.fileno(), False)
        rest, read = b"", None
        while read != b"":
            read = pipe.read() if wait(pipe) else None
            *lines, rest = (rest + (read or b"")).split(b"\n")
            for line in lines:
                trace.take(said := json.loads(line))
                if waits and said["what"] == "revision":
                    _send(process, "go")
        code = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
        printed.join(LAST_WORDS_S)
        for channel in (process.stdin, process.stdout, process.stderr):
            if channel is not None:
                channel.close()
    if trace.done_at is None and trace.failure is None:
        raise Unreachable(
            f"the process that migrates the clone ended with {code} before it was done: its output is above; "
            f"{HALF_MIGRATED}"
        )
    return trace


def _pass_on(printed: Any) -> None:
    """Pass on the output of env.py and the revisions, a line at a time, beside a progress line."""
    with suppress(ValueError), io.BufferedReader(printed) as lines:  # the stream may be closed meanwhile
        for line in lines:
            sys.stderr.write(line.decode("utf-8", "replace"))
            sys.stderr.flush()


def _send(process: "subprocess.Popen[bytes]", line: str) -> None:
    """Write a line to the child's stdin; a dead child is ignored: its end is noticed elsewhere."""
    assert process.stdin is not None
    left = memoryview(f"{line}\n".encode())
    with suppress(BrokenPipeError):
        while left:
            left = left[process.stdin.write(left) :]


def refusal(trace: Trace) -> PipestateError:
    """Build the error of a child that stopped before any revision began."""
    said = trace.failure
    is_usage = said is not None and said.exit_code == ConfigError.exit_code
    kind = ConfigError if is_usage else Unreachable
    return kind(f"nothing was rehearsed: {said.message if said else 'the child reported nothing'}")
