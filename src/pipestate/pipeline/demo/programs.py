"""Run `python -m pipestate ...`, `python -m alembic ...` and the like, quickly.

Starting Python and importing takes longer than most commands: a server has done both, once, and forks for each.
What a program sees is its own: directory, environment and arguments.
"""

import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path

from pipestate.interrupt import Interrupted

ENDS_BY_ITSELF_S = 2
FORKS = multiprocessing.get_context("forkserver")
USED = (
    "alembic.config",
    "pipestate.cli.main",
    "pipestate.cli.verify",
    "pipestate.environment.migrate",
    "pipestate.gate",
    "pipestate.render.console",
    "psycopg2.extras",
    "rich.markdown",
    "rich.table",
    "sqlalchemy.dialects.postgresql",
)


def import_beforehand() -> None:
    """Start the server, which imports what most commands of the story need before it forks.

    It does not hear Ctrl-C, which a terminal sends to it as well: it ends with this process.
    """
    FORKS.set_forkserver_preload([*USED, __name__])
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, heard)


def run_program(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> int:
    """Run a module as a program, with this process's output, and return its exit code."""
    program = FORKS.Process(target=_with_one_output, args=(list(argv), cwd, dict(environment)))
    try:
        with _unheard():
            program.start()
        program.join()
    except KeyboardInterrupt:  # the program has heard it, too, unless it had just begun
        program.join(ENDS_BY_ITSELF_S)
        program.terminate()
        program.join()
        raise
    assert program.exitcode is not None
    return program.exitcode


@contextmanager
def _unheard() -> Iterator[None]:
    """Hear Ctrl-C afterwards: a program that is just being started could not be ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def become(argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
    """Turn this process into `python -m argv[0] ...`: its directory, environment and input are its own."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path += [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = list(argv)
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def _with_one_output(argv: list[str], cwd: Path, environment: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(1, 2)
    # The old stream remembers what stood behind the number before: a file, perhaps, and now there is a pipe.
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    try:
        become(argv, cwd, environment)
    except KeyboardInterrupt:  # before the program could hear it; the demo says the rest
        sys.exit(Interrupted.exit_code)
