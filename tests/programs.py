"""`python -m pipestate ...` and `python -m alembic ...`, quickly.

As the demo runs its commands, by forks of a server that has imported everything; here each has files for its
output, and several run at once.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from unittest.mock import patch

from pipestate.pipeline.demo.programs import become

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "programs", "warm"])
PATIENCE_S = 120


@cache
def start_server() -> None:
    """Start the server on the path of this process: before Python 3.13 it is not told of it, and says nothing."""
    with patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))):
        forkserver.ensure_running()


def run_program(
    argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run a module as a program, to its end."""
    start_server()
    with tempfile.TemporaryDirectory() as outputs:
        done = FORKS.Process(target=_main, args=(list(argv), cwd, dict(environment), Path(outputs)))
        done.start()
        done.join(PATIENCE_S)
        if done.exitcode is None:
            done.kill()
            raise TimeoutError(f"{' '.join(argv)} takes too long")
        out, err = (Path(outputs, name).read_text(encoding="utf-8") for name in ("out", "err"))
    return subprocess.CompletedProcess(list(argv), done.exitcode, out, err)


def _main(argv: list[str], directory: Path, environment: dict[str, str], outputs: Path) -> None:
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(outputs / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    become(argv, directory, environment)
