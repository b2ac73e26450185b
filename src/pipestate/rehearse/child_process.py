"""Child process that migrates the clone, as the parent sees it: the process, and the trace of its reports.

Times are `time.monotonic()`, which the two processes share.
"""

import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.database.urls import named_in_variables
from pipestate.project.find import describe
from pipestate.rehearse.clone import HALF_MIGRATED, Job

LAST_WORDS_S = 2.0
FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*([A-Za-z]+)", re.DOTALL)
Step = tuple[str, str]  # an Alembic command and its target
Column = tuple[str, str]  # name and type


@dataclass(frozen=True, slots=True)
class Prepared:
    """The error of preparing or planning a statement, and the columns that it returns, if known."""

    error: str | None
    columns: tuple[Column, ...] | None = None
    plan_error: str | None = None


def read_prepared(said: Sequence[Any]) -> Prepared:
    """Read the child's report of one statement."""
    error, columns, plan_error = said
    known = tuple((name, kind) for name, kind in columns) if columns is not None else None
    return Prepared(error, known, plan_error)


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock on a table that a session held after a statement; `file` is the table's relfilenode then."""

    oid: int
    mode: str
    file: int | None


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a revision. `source` is the line of its file that ran it; None if other code ran it."""

    revision: str
    session: int
    source: str | None
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
    prepared: list[tuple[str | None, list[Prepared]]] = field(default_factory=list)  # by the revision before
    failure: Failure | None = None
    empty_at: float | None = None  # from here to the first revision, an empty one is measured
    done_at: float | None = None
    begins: Begins = no_progress

    @property
    def is_empty(self) -> bool:
        """Tell whether env.py runs without revisions: waits are noise then."""
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
        elif what == "prepared":
            self.prepared.append((values["after"], [read_prepared(each) for each in values["found"]]))
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


@contextmanager
def child(
    job: Job,
    steps: Sequence[Step],
    statements: Sequence[str] = (),
    *,
    measured: bool = False,
    waits: bool = False,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the process that migrates and prepares the statements after each step; it ends with this process.

    With `measured` it first runs without revisions; with `waits` it begins a revision only after a line on its stdin.
    """
    url = job.clone.render_as_string(hide_password=False)
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
    assert process.stdin is not None
    printed = threading.Thread(target=_pass_on, args=(process.stderr,), daemon=True)
    printed.start()
    given = {"url": url, "project": describe(job.project), "steps": steps, "statements": statements}
    try:
        write_line(process, json.dumps({**given, "measured": measured, "waits": waits}))
        if not waits:
            process.stdin.close()
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
        printed.join(LAST_WORDS_S)
        for channel in (process.stdin, process.stdout, process.stderr):
            if channel is not None:
                channel.close()


def _pass_on(printed: Any) -> None:
    """Pass on the output of env.py and the revisions, a line at a time, beside a progress line."""
    with suppress(ValueError), io.BufferedReader(printed) as lines:  # the stream may be closed meanwhile
        for line in lines:
            sys.stderr.write(line.decode("utf-8", "replace"))
            sys.stderr.flush()


def write_line(process: "subprocess.Popen[bytes]", line: str) -> None:
    """Write a line to the child's stdin; a dead child is ignored: its end is noticed elsewhere."""
    assert process.stdin is not None
    left = memoryview(f"{line}\n".encode())
    with suppress(BrokenPipeError):
        while left:
            left = left[process.stdin.write(left) :]


def listen(process: "subprocess.Popen[bytes]", trace: Trace) -> None:
    """Process the child's reports until its end."""
    assert process.stdout is not None
    for line in process.stdout:
        trace.take(json.loads(line))
    require_told(process, trace)


def require_told(process: "subprocess.Popen[bytes]", trace: Trace) -> None:
    """Refuse a child that ended without a report."""
    code = process.wait()
    if trace.done_at is None and trace.failure is None:
        raise Unreachable(
            f"the process that migrates the clone ended with {code} before it was done: what it printed stands above; "
            f"{HALF_MIGRATED}"
        )


def refusal(trace: Trace) -> PipestateError:
    """Build the error of a child that stopped before any revision began."""
    said = trace.failure
    is_usage = said is not None and said.exit_code == ConfigError.exit_code
    kind = ConfigError if is_usage else Unreachable
    return kind(f"nothing was rehearsed: {said.message if said else 'the child reported nothing'}")


def run_child(
    job: Job, steps: Sequence[Step], statements: Sequence[str] = (), begins: Begins = no_progress
) -> Trace:
    """Run steps on the clone without watching them."""
    trace = Trace(begins=begins)
    with child(job, steps, statements) as process:
        listen(process, trace)
    return trace
