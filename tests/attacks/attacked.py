"""Commands that the attacks run, from outside: `alembic …`, `pipestate …`, or any program of Python."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from support.programs import Watched, run_program, watched
from support.servers import Database

PYTHON = sys.executable
PATIENCE_S = 120

Done = subprocess.CompletedProcess[str]
Started = subprocess.Popen[str] | Watched


def run(*argv: str, cwd: Path, environment: Mapping[str, str] | None = None) -> Done:
    """Run `alembic …` or `pipestate …` to its end."""
    return run_program(argv, cwd=cwd, environment={**os.environ, **(environment or {})})


@contextmanager
def running(*argv: str, cwd: Path, environment: Mapping[str, str] | None = None) -> Iterator[Started]:
    """Start `-m alembic …` or any other arguments of Python; end it, where the caller has not seen its end."""
    everything = {**os.environ, **(environment or {})}
    if argv[0] == "-m":
        with watched(argv[1:], cwd=cwd, environment=everything) as program:
            yield program
        return
    with subprocess.Popen(
        [PYTHON, *argv],
        cwd=cwd,
        env=everything,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: Started, *, patience_s: float = PATIENCE_S) -> Done:
    """Wait for its end, and return it as `run` does."""
    out, err = process.communicate(timeout=patience_s)
    assert process.returncode is not None
    return Done(process.args, process.returncode, out, err)


@cache
def shipped_ini() -> Path:
    """The alembic.ini of the shipped migrations."""
    return Path(run("pipestate", "--alembic-ini", cwd=Path.cwd()).stdout.strip())


def install_ledger(database: Database, root: Path) -> None:
    """Install the ledger in a project that has none."""
    done = run("pipestate", "ledger", "install", cwd=root, environment={"DATABASE_URL": database.text})
    assert done.returncode == 0, done.stderr
