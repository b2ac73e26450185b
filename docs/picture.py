"""The README's picture: real commands in a real terminal, exported by rich. `make picture` writes it."""

import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text
from sqlalchemy import create_engine

from pipestate import scene
from pipestate.embedded import embedded_server

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "picture.svg"
COLUMNS = 104
SHOWN = ("pipestate gate readiness", "alembic upgrade head")


def main() -> None:
    with embedded_server() as url:
        engine = create_engine(url)
        with engine.begin() as connection:
            scene.build(connection)
        engine.dispose()
        host = str(url.query["host"])
        environment = {
            **os.environ,
            "PGHOST": host,
            "PGUSER": "postgres",
            "DATABASE_URL": "postgresql:///postgres",
        }
        subprocess.run(
            [sys.executable, "-m", "alembic", "upgrade", "0005"],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        screen = Text()
        for command in SHOWN:
            screen.append(f"$ {command}\n", "bold cyan")
            screen.append(Text.from_ansi(in_terminal(command, environment)))
            screen.append("\n\n")
    console = Console(record=True, width=COLUMNS, file=Path(os.devnull).open("w"))  # noqa: SIM115
    console.print(screen)
    PICTURE.write_text(console.export_svg(title="pipestate"), encoding="utf-8")


def in_terminal(command: str, environment: dict[str, str]) -> str:
    program, *arguments = shlex.split(command)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", program, *arguments],
        cwd=ROOT,
        env={**environment, "TERM": "xterm-256color"},
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    while chunk := _read(ours):
        written += chunk
    process.wait()
    return written.decode().replace("\r\n", "\n").rstrip()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says EIO when the other side is closed
        return b""


if __name__ == "__main__":
    main()
