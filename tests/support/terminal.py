"""A terminal of a given width: what a person sees, as text."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.programs import PATIENCE_S, start

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


@dataclass(frozen=True)
class Typed:
    """A command that somebody types: pipestate's, or Alembic's."""

    arguments: Sequence[str]
    columns: int = 100
    environment: dict[str, str] = field(default_factory=dict)
    program: str = "pipestate"


def in_terminals(typed: Sequence[Typed], *, cwd: Path, **environment: str) -> list[str]:
    """All that each of them writes to its terminal, colours and all."""
    return [_play(each, cwd, on_terminal(environment)) for each in typed]


def on_terminal(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program on a terminal that can show everything."""
    clean = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")
    }
    return {**clean, "TERM": "xterm-256color", **environment}


def open_terminal(columns: int, lines: int = 50) -> tuple[int, int]:
    """Open a terminal of this size: the side of who reads, and that of the program."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    return ours, theirs


def read_all(terminal: int) -> bytes:
    """Read until the program has closed its side."""
    written = b""
    try:
        while chunk := _read(terminal):
            written += chunk
    except OSError:  # Linux says EIO when the other side is closed
        pass
    os.close(terminal)
    return written


def _read(terminal: int) -> bytes:
    assert select.select([terminal], [], [], PATIENCE_S)[0], "the program neither writes nor ends"
    return os.read(terminal, 65536)


def plain(written: str) -> str:
    return ANSI.sub("", written)


def _play(typed: Typed, cwd: Path, environment: Mapping[str, str]) -> str:
    ours, theirs = open_terminal(typed.columns)
    argv = [typed.program, *typed.arguments]
    process = start(argv, cwd=cwd, environment={**environment, **typed.environment}, out=theirs, err=theirs)
    os.close(theirs)
    written = read_all(ours)
    process.join(PATIENCE_S)
    return written.decode().replace("\r\n", "\n")
