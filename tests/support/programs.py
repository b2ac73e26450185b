"""`python -m pipestate ...` and `python -m alembic ...`, quickly.

Starting Python and importing takes longer than most commands, so a server does both once and forks for each. Each
program has its own directory, environment, arguments and output.
"""

import gc
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver, reduction
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "support.programs", "support.warm_start"])
PATIENCE_S = 120


def collect_seldom() -> None:
    """Look for garbage seldom, and never among what is there now: the default pace costs a tenth of a run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@cache
def start_server() -> None:
    """Start the server on the path of this process: before Python 3.13 it is not told of it, and says nothing."""
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))):
        forkserver.ensure_running()


class Handed:
    """A file descriptor that goes along to a program."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _received, (reduction.DupFd(self.number),)


def _received(sent: Any) -> int:
    number: int = sent.detach()
    return number


def start(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str], out: int, err: int
) -> ForkServerProcess:
    """Start a module as a program that writes there."""
    start_server()
    process = FORKS.Process(target=_main, args=(list(argv), cwd, dict(environment), Handed(out), Handed(err)))
    process.start()
    return process


@dataclass(frozen=True)
class Program:
    """A module that runs as a program, and what it has printed."""

    argv: list[str]
    process: ForkServerProcess
    out: IO[bytes]
    err: IO[bytes]

    def finish(self) -> "subprocess.CompletedProcess[str]":
        """Wait for its end, and read what it printed."""
        self.process.join(PATIENCE_S)
        if self.process.exitcode is None:
            self.process.kill()
            raise TimeoutError(f"{' '.join(self.argv)} takes too long")
        out, err = (_text(file) for file in (self.out, self.err))
        return subprocess.CompletedProcess(self.argv, self.process.exitcode, out, err)


@contextmanager
def started(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> Iterator[Program]:
    """Start a module as a program, which is read when it has ended."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = start(argv, cwd=cwd, environment=environment, out=out.fileno(), err=err.fileno())
        yield Program(list(argv), process, out, err)


def run_program(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a module as a program, to its end."""
    with started(argv, cwd=cwd, environment=environment) as program:
        return program.finish()


def run_at_once(
    commands: Sequence[Sequence[str]], *, cwd: Path, environment: Mapping[str, str]
) -> "list[subprocess.CompletedProcess[str]]":
    """Run several modules as programs, all of them at the same time, to their ends."""
    with ExitStack() as running:
        programs = [
            running.enter_context(started(argv, cwd=cwd, environment=environment)) for argv in commands
        ]
        return [program.finish() for program in programs]


@dataclass(frozen=True)
class Watched:
    """A module that runs as a program and is watched meanwhile: what tests use of `subprocess.Popen`."""

    args: list[str]
    process: ForkServerProcess
    stdout: IO[str]
    stderr: IO[str]

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.process.kill()

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Read all that it still prints, and wait for its end."""
        with ThreadPoolExecutor(2) as pool:
            out, err = pool.submit(self.stdout.read), pool.submit(self.stderr.read)
            self.process.join(timeout)
            if self.poll() is None:
                self.kill()
                raise subprocess.TimeoutExpired(self.args, timeout)
            return out.result(), err.result()


@contextmanager
def watched(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> Iterator[Watched]:
    """Start a module as a program; end it, where the caller has not seen its end."""
    (ours, out), (ours_too, err) = os.pipe(), os.pipe()
    try:
        process = start(argv, cwd=cwd, environment=environment, out=out, err=err)
    finally:
        os.close(out)
        os.close(err)
    with os.fdopen(ours) as stdout, os.fdopen(ours_too) as stderr:
        try:
            yield Watched(list(argv), process, stdout, stderr)
        finally:
            process.kill()
            process.join()


def become(argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
    """Turn this process into `python -m argv[0] ...`, with a separate directory, environment and input."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path += [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = list(argv)
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _main(argv: list[str], directory: Path, environment: dict[str, str], out: int, err: int) -> None:
    for file, number in ((out, 1), (err, 2)):
        os.dup2(file, number)
        os.close(file)
    # The old streams remember what stood behind the numbers before; Alembic's Config has kept the first of them.
    kept = sys.stdout
    sys.stdout = os.fdopen(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    try:
        try:
            become(argv, directory, environment)
        finally:
            kept.flush()
    except KeyboardInterrupt:
        _end_interrupted()


def _end_interrupted() -> None:
    """End as Python does: with the traceback, and by the signal."""
    traceback.print_exc()
    sys.stdout.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
