"""Where a clone lies: a directory of its own, and the server in it. It is gone at the end, whatever happens."""

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

from pipestate.config import parse_url
from pipestate.embedded import relax, start_server
from pipestate.errors import ConfigError, Unreachable
from pipestate.rehearse.copying import reaper


@dataclass(slots=True)
class Place:
    """A directory; `keep` may be set until the end."""

    directory: Path
    keep: bool = False


@contextmanager
def temporary_place() -> Iterator[Place]:
    """Make a directory that only we can read, and remove it at the end; where we are killed, another process does."""
    place = Place(Path(tempfile.mkdtemp(prefix="pipestate-clone-")))
    command = [sys.executable, "-P", "-m", reaper.__name__, str(place.directory)]
    quiet: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    watch = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **quiet)
    try:
        yield place
    finally:
        if not place.keep:
            shutil.rmtree(place.directory, ignore_errors=True)
        with suppress(BrokenPipeError):
            watch.communicate(reaper.KEEP if place.keep else None)


@contextmanager
def clone_server(version: int, place: Place) -> Iterator[URL]:
    """Start a server in the place; stop it at the end, unless it is kept."""
    data = place.directory / "data"
    server = _start(data, version)
    try:
        url = parse_url(server.get_uri()).set(password=None)
        _require_private(url, place)
        relax(server)
        yield url
    finally:
        if place.keep:
            server.cleanup_mode = None
        server.cleanup()


def how_to_end(place: Place) -> str:
    """Write the command that ends a kept server, and removes it."""
    server = (place.directory / "data" / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0]
    return f"kill -QUIT {server} && sleep 1 && rm -r {place.directory}"


def _start(data: Path, version: int) -> Any:
    try:
        return start_server(data, version)
    except (OSError, subprocess.SubprocessError, RuntimeError, AssertionError) as error:
        raise Unreachable(
            f"the embedded PostgreSQL {version} did not start in {data.parent}: {_first(error)}"
        ) from error


def _first(error: BaseException) -> str:
    said = getattr(error, "stderr", None) or str(error) or type(error).__name__
    return " ".join(str(said).strip().splitlines()[-1].split())


def _require_private(url: URL, place: Place) -> None:
    """Refuse a server whose socket lies outside: everybody on this machine could read production's rows there."""
    if not Path(str(url.query.get("host", ""))).is_relative_to(place.directory):
        raise ConfigError(
            f"the path of {place.directory} is too long for a socket in it: set TMPDIR to a shorter one"
        )
