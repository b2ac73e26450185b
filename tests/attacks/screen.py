"""A command on a terminal of a given width: every byte that it writes there."""

import fcntl
import os
import pty
import struct
import subprocess
import termios

from attacks.attacked import PATIENCE_S, PYTHON
from attacks.project import Project


def on_screen(project: Project, *arguments: str, columns: int = 100) -> str:
    """Run `python -m …` on a terminal, and return what it wrote, colours and all."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    clean = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")
    }
    process = subprocess.Popen(
        [PYTHON, "-m", *arguments],
        cwd=project.root,
        env={**clean, **project.environment, "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = _read_all(ours)
    process.wait(PATIENCE_S)
    return written.decode(errors="replace")


def _read_all(terminal: int) -> bytes:
    written = b""
    try:
        while chunk := os.read(terminal, 65536):
            written += chunk
    except OSError:  # Linux says EIO when the other side is closed
        pass
    os.close(terminal)
    return written
