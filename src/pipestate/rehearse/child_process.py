"""The process that migrates the clone, seen from outside."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from pipestate.errors import ConfigError, PipestateError, Unreachable
from pipestate.rehearse.clone import HALF_MIGRATED
from pipestate.rehearse.job import Job
from pipestate.rehearse.trace import Begins, Trace, untold

LAST_WORDS_S = 2.0
Step = tuple[str, str]  # a command of Alembic, and its target


@contextmanager
def child(
    job: Job,
    steps: Sequence[Step],
    statements: Sequence[str] = (),
    *,
    measured: bool = False,
    waits: bool = False,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Start the process that migrates, and that prepares the statements after each step; it ends with us.

    With `measured` it first shows what an empty revision looks like; with `waits` it begins a revision only when a
    line comes on its stdin.
    """
    url = job.clone.render_as_string(hide_password=False)
    named = job.project.named
    project = {
        "config": str(job.project.config) if job.project.config and not named.shipped else None,
        "section": named.section,
        "scripts": str(named.scripts) if named.scripts else None,
        "shipped": named.shipped,
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "pipestate.rehearse.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        process_group=0,  # Ctrl-C is the parent's: it ends the child, and says what that means
        env={**os.environ, "PIPESTATE_DATABASE_URL": url, "DATABASE_URL": url},
    )
    assert process.stdin is not None
    printed = threading.Thread(target=_pass_on, args=(process.stderr,), daemon=True)
    printed.start()
    given = {"url": url, "project": project, "steps": steps, "statements": statements}
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
    """Pass on what env.py and the revisions print, a line at a time: a progress line may stand on the screen."""
    with suppress(ValueError), io.BufferedReader(printed) as lines:  # it may be closed meanwhile
        for line in lines:
            sys.stderr.write(line.decode("utf-8", "replace"))
            sys.stderr.flush()


def write_line(process: "subprocess.Popen[bytes]", line: str) -> None:
    """Write a line to the child's stdin; one that died says so itself, or by its silence."""
    assert process.stdin is not None
    left = memoryview(f"{line}\n".encode())
    with suppress(BrokenPipeError):
        while left:
            left = left[process.stdin.write(left) :]


def listen(process: "subprocess.Popen[bytes]", trace: Trace) -> None:
    """Take what the child tells until its end."""
    assert process.stdout is not None
    for line in process.stdout:
        trace.take(json.loads(line))
    require_told(process, trace)


def require_told(process: "subprocess.Popen[bytes]", trace: Trace) -> None:
    """Refuse a child that ended without a word."""
    code = process.wait()
    if trace.done_at is None and trace.failure is None:
        raise Unreachable(
            f"the process that migrates the clone ended with {code} before it was done: what it printed stands above; "
            f"{HALF_MIGRATED}"
        )


def refusal(trace: Trace) -> PipestateError:
    """Make the error of a child that stopped before any revision began."""
    said = trace.failure
    is_usage = said is not None and said.exit_code == ConfigError.exit_code
    kind = ConfigError if is_usage else Unreachable
    return kind(f"nothing was rehearsed: {said.message if said else 'the child told nothing'}")


def run_child(
    job: Job, steps: Sequence[Step], statements: Sequence[str] = (), begins: Begins = untold
) -> Trace:
    """Run steps on the clone without watching them."""
    trace = Trace(begins=begins)
    with child(job, steps, statements) as process:
        listen(process, trace)
    return trace
