"""The stage on which the demo plays: it prints a command as a person would type it, and runs it."""

import io
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, NullPool, create_engine, text

from pipestate.config import parse_url, shipped_root
from pipestate.errors import PipestateError
from pipestate.pipeline.demo.programs import import_beforehand, run_program

if TYPE_CHECKING:
    from redis import Redis

LEGACY = text(
    "SELECT md5(string_agg(s::text || p::text, ',' ORDER BY s.subdomain)) FROM "
    "(SELECT subdomain, status, extraction_status, last_updated, last_deployed, last_extracted FROM sites) s "
    "JOIN (SELECT subdomain, current_stage, stage_total, stage_completed, started_at, updated_at "
    "FROM site_progress) p USING (subdomain)"
)


class DemoFailed(PipestateError):
    """A step of the demo did not end as it should."""

    exit_code = 1


@dataclass
class Stage:
    """Where the demo plays: a database, perhaps a Redis, and a directory to work in."""

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
        """The variables that replace the caller's own: PIPESTATE_DATABASE_URL, which may name production, outranks DATABASE_URL."""
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
        """Print the command, wait for a key if asked to, and let its own output through."""
        self.console.print()
        self.show(command)
        if self.pause:
            self._wait()
        sys.stdout.flush()
        argv = shlex.split(command.removeprefix("python -m "))
        environment = {**os.environ, **self.environment}
        self._require(command, run_program(argv, cwd=self.directory, environment=environment), code)

    def _wait(self) -> None:
        try:
            self.console.input("[dim]press Enter[/dim]")
        except EOFError:
            self.pause = False  # nobody is there to press it

    def cron(self, command: str) -> str:
        """Run a command in this process, where thirty are quick; return the last line that it prints."""
        from pipestate.cli.main import app

        printed = io.StringIO()
        with self._at_home(), redirect_stdout(printed), redirect_stderr(printed):
            code = app(shlex.split(command)[1:], standalone_mode=False)
        lines = printed.getvalue().split("\n")
        self._require(command, code or 0, 0)
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    @contextmanager
    def _at_home(self) -> Iterator[None]:
        """Put this process into the demo's directory, with its variables, for a while."""
        before = dict(os.environ)
        os.environ.update(self.environment)
        try:
            with chdir(self.directory):
                yield
        finally:
            os.environ.clear()
            os.environ.update(before)

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
        """Print how to go on with the servers, and how to end them."""
        self.tell("The servers go on. To work with them:")
        for name, value in self.environment.items():
            self.console.print(f"export {name}={shlex.quote(value)}", soft_wrap=True)
        self.tell("To end them, and to remove what they leave:")
        self.console.print(self.ending(), soft_wrap=True)

    def ending(self) -> str:
        """Write the command that ends the servers and removes what they leave."""
        data = Path(str(parse_url(self.database).query["host"]))
        servers = [(data / "postmaster.pid").read_text().split("\n")[0]]
        left = [data.parent, self.directory]
        if self.redis is not None:
            with self.queues() as redis:
                servers.append(str(redis.info("server")["process_id"]))
                left.append(Path(str(redis.config_get("dir")["dir"])))
        return f"kill {' '.join(servers)}; sleep 2; rm -r {' '.join(map(str, left))}"
