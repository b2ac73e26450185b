"""A terminal of a given width: what a person sees, as text.

The commands run in forks of one process that has everything imported: a terminal each, and quickly.
"""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

MANY = 8  # terminals, for which it pays to import every command first
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
    clean = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")
    }
    done = subprocess.run(
        [sys.executable, __file__],
        cwd=cwd,
        env={**clean, "TERM": "xterm-256color", **environment},
        input=json.dumps([asdict(each) for each in typed]),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    screens: list[str] = json.loads(done.stdout)
    return screens


def plain(written: str) -> str:
    return ANSI.sub("", written)


def _play(typed: Typed) -> str:
    child, terminal = pty.fork()
    if child == 0:
        _be(typed)
    written = _read_all(terminal)
    os.close(terminal)
    os.waitpid(child, 0)
    return written.decode().replace("\r\n", "\n")


def _be(typed: Typed) -> None:
    from alembic.config import main as alembic

    from pipestate.cli.main import main as pipestate

    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, typed.columns, 0, 0))
    os.environ.update(typed.environment)
    sys.argv = [typed.program, *typed.arguments]
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(fd, mode) for fd, mode in ((0, "r"), (1, "w"), (2, "w")))
    try:
        alembic() if typed.program == "alembic" else pipestate()
    except SystemExit:
        pass
    finally:
        sys.stdout.flush()
        os._exit(0)


def _read_all(terminal: int) -> bytes:
    written = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux says EIO when the other side is closed
            return written
        if not chunk:
            return written
        written += chunk


if __name__ == "__main__":
    import pipestate.chain.read
    import pipestate.chain.version_table
    import pipestate.cli.main
    import pipestate.pipeline.reconcile
    import pipestate.render.console  # noqa: F401

    asked = [Typed(**each) for each in json.load(sys.stdin)]
    if len(asked) > MANY:
        import warm  # noqa: F401
    print(json.dumps([_play(each) for each in asked]))
