"""A command on a terminal of a given width: every byte that it writes there."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from attacks.attacked import PATIENCE_S, PYTHON
from attacks.project import Project
from support.programs import start
from support.terminal import on_terminal, open_terminal, read_all


def on_screen(project: Project, *arguments: str, columns: int = 100) -> str:
    """Run `python -m …` on a terminal, and return what it wrote, colours and all."""
    ours, theirs = open_terminal(columns)
    wait = _start(project, arguments, theirs)
    os.close(theirs)
    written = read_all(ours)
    wait(PATIENCE_S)
    return written.decode(errors="replace")


def _start(project: Project, arguments: Sequence[str], terminal: int) -> Callable[[float], object]:
    """Start it there, and return how to wait for it."""
    environment = on_terminal(project.environment)
    if sys.executable == PYTHON:
        return start(arguments, cwd=project.root, environment=environment, out=terminal, err=terminal).join
    return subprocess.Popen(
        [PYTHON, "-m", *arguments],
        cwd=project.root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
    ).wait
