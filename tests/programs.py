"""`python -m pipestate ...` and `python -m alembic ...`, quickly.

As the demo runs its commands, by forks of a server that has imported everything; here each has files for its
output, and several run at once.
"""

import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from unittest.mock import patch

from pipestate.pipeline.demo.programs import become

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "programs", "warm"])
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


@dataclass(frozen=True)
class Program:
    """A module that runs as a program."""

    argv: list[str]
    process: ForkServerProcess
    outputs: Path

    def wait(self) -> "subprocess.CompletedProcess[str]":
        """Wait for its end, and read what it printed."""
        self.process.join(PATIENCE_S)
        if self.process.exitcode is None:
            self.process.kill()
            raise TimeoutError(f"{' '.join(self.argv)} takes too long")
        out, err = (Path(self.outputs, name).read_text(encoding="utf-8") for name in ("out", "err"))
        return subprocess.CompletedProcess(self.argv, self.process.exitcode, out, err)


@contextmanager
def started(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> Iterator[Program]:
    """Start a module as a program."""
    start_server()
    with tempfile.TemporaryDirectory() as outputs:
        for name in ("out", "err"):
            Path(outputs, name).touch()
        process = FORKS.Process(target=_main, args=(list(argv), cwd, dict(environment), Path(outputs)))
        process.start()
        yield Program(list(argv), process, Path(outputs))


def run_program(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a module as a program, to its end."""
    with started(argv, cwd=cwd, environment=environment) as program:
        return program.wait()


def _main(argv: list[str], directory: Path, environment: dict[str, str], outputs: Path) -> None:
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(outputs / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    become(argv, directory, environment)
