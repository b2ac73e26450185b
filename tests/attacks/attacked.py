"""What is attacked: the pipestate of this checkout, or the one that PIPESTATE_ATTACK_PYTHON can import.

The tests only use commands, SQL and files. What 0.1.0 spelt otherwise is translated here and nowhere else,
so that each attack can be seen to succeed there.
"""

import atexit
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from bed import Database
from programs import Watched, run_program, watched

PYTHON = os.environ.get("PIPESTATE_ATTACK_PYTHON", sys.executable)
PATIENCE_S = 120

Done = subprocess.CompletedProcess[str]
Started = subprocess.Popen[str] | Watched
_ONE_AT_A_TIME = threading.Lock()


@cache
def is_first_version() -> bool:
    """Whether it is 0.1.0, which had its helpers in `pipestate.migrations`."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('pipestate.migrations') is None)"
    return subprocess.run([PYTHON, "-c", code], check=False).returncode == 0


def run(*argv: str, cwd: Path, environment: Mapping[str, str] | None = None) -> Done:
    """Run `alembic …` or `pipestate …` to its end."""
    everything = {**os.environ, **(environment or {})}
    if sys.executable == PYTHON:
        return run_program(argv, cwd=cwd, environment=everything)
    with tempfile.TemporaryDirectory() as outputs, _ONE_AT_A_TIME:
        out, err = (Path(outputs, name) for name in ("out", "err"))
        wanted = {"argv": argv, "cwd": str(cwd), "environment": everything, "out": str(out), "err": str(err)}
        server = _forks()
        assert server.stdin is not None
        assert server.stdout is not None
        print(json.dumps(wanted), file=server.stdin, flush=True)
        code = int(server.stdout.readline())
        return Done(argv, code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


@cache
def _forks() -> "subprocess.Popen[str]":
    """Start what runs commands with another Python; it ends with this process."""
    server = subprocess.Popen(
        [PYTHON, str(Path(__file__).with_name("forks.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.kill)
    return server


@contextmanager
def running(*argv: str, cwd: Path, environment: Mapping[str, str] | None = None) -> Iterator[Started]:
    """Start `-m alembic …` or any other arguments of Python; end it, where the caller has not seen its end."""
    everything = {**os.environ, **(environment or {})}
    if sys.executable == PYTHON and argv[0] == "-m":
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
    """The alembic.ini of the shipped chain, in the checkout that is attacked."""
    return Path(run("pipestate", "--alembic-ini", cwd=Path.cwd()).stdout.strip())


def make_shipped_ready(database: Database) -> None:
    """Open the gate of 0006, in the words of the checkout that is attacked: its own tests know them."""
    path = shipped_ini().parent / "tests" / "ready.py"
    spec = importlib.util.spec_from_file_location("ready_of_the_attacked", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    make_ready: Callable[[Database], None] = module.make_ready
    make_ready(database)


def bridged(text: str) -> str:
    """A file of a project, as it would have been written for 0.1.0."""
    if not is_first_version():
        return text
    text = re.sub(r",\s*revision=revision\b", "", text)
    text = re.sub(r"\], sign_offs=\[", ", ", text)
    text = re.sub(
        r"^from pipestate.environment import guard\n|^guard\(context\)\n", "", text, flags=re.MULTILINE
    )
    return text.replace("pipestate.ddl", "pipestate.migrations")


def ledger_table(name: str) -> str:
    return f"pipestate_{name}" if is_first_version() else f"pipestate.{name}"


def install_ledger(database: Database, root: Path) -> None:
    """The ledger, in a project that has none. With 0.1.0 that was the beginning of the shipped chain."""
    url = {"DATABASE_URL": database.text}
    if is_first_version():
        done = run("alembic", "-c", str(shipped_ini()), "upgrade", "0002", cwd=root, environment=url)
    else:
        done = run("pipestate", "ledger", "install", cwd=root, environment=url)
    assert done.returncode == 0, done.stderr
