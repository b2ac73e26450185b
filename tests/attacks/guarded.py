"""The project `tests/projects/guarded`: an env.py with the guard, and revisions that a test writes."""

import io
import shutil
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import NullPool, create_engine

from support.miniatures import PROJECTS
from support.servers import Database

HEAD = """from alembic import op
import sqlalchemy as sa

revision, down_revision = {revision!r}, {before!r}

"""
# Each way to run Alembic, with the drivers that it works with on PostgreSQL.
SYNCHRONOUS = ("psycopg2", "psycopg")
ENVIRONMENTS = {
    "generic": SYNCHRONOUS,
    "per_migration": SYNCHRONOUS,
    "own_transaction": SYNCHRONOUS,
    "multidb": SYNCHRONOUS,
    "handed_over": SYNCHRONOUS,
    "swallowing": SYNCHRONOUS,
    "not_transactional": SYNCHRONOUS,
    "autocommit": SYNCHRONOUS,
    "pyproject": SYNCHRONOUS,
    "asynchronous": ("asyncpg", "psycopg"),
    "run": ("psycopg2",),
}


@dataclass
class Guarded:
    """A copy of the project, on a database."""

    root: Path
    database: Database
    head: str | None = None

    def use(self, environment: str, driver: str | None = None) -> None:
        """Take that env.py; the URL names the driver."""
        self.environment = environment
        files = self.root / "environments"
        name = "generic" if environment == "pyproject" else environment
        shutil.copyfile(files / f"{name}.py", self.root / "migrations" / "env.py")
        backend = self.database.url.get_backend_name()
        self.url = self.database.url.set(drivername=f"{backend}+{driver}" if driver else backend)

    def write(self, revision: str, body: str, *, down: str = "pass", top: str = "") -> None:
        """Write a revision that follows the last one."""
        text = HEAD.format(revision=revision, before=self.head) + top + "\n\n"
        for name, code in (("upgrade", body), ("downgrade", down)):
            text += f"def {name}(engine_name=None):\n{indent(code.strip(), '    ')}\n\n\n"
        (self.root / "migrations" / "versions" / f"{revision}.py").write_text(text)
        self.head = revision

    def config(self, *, x: tuple[str, ...] = ()) -> Config:
        url = self.url.render_as_string(hide_password=False).replace("%", "%%")
        if self.environment == "pyproject":
            toml = self.root / "pyproject.toml"
            toml.write_text('[tool.alembic]\nscript_location = "%(here)s/migrations"\n')
            config = Config(toml_file=toml, stdout=io.StringIO())
        else:
            config = Config(str(self.root / "alembic.ini"), stdout=io.StringIO())
        config.set_main_option("sqlalchemy.url", url)
        config.cmd_opts = _Options(list(x))  # type: ignore[assignment]
        return config

    def attempt(
        self, command_name: str = "upgrade", to: str = "head", *, x: tuple[str, ...] = ()
    ) -> str | None:
        """Run Alembic; return the sentence with which it ends, None where it succeeds."""
        config = self.config(x=x)
        run = getattr(command, command_name)
        try:
            if self.environment == "handed_over":
                with create_engine(self.url, poolclass=NullPool).connect() as connection:
                    config.attributes["connection"] = connection
                    try:
                        connection.exec_driver_sql("SELECT 1")
                        run(config, to)
                    finally:
                        connection.commit()  # an application that goes on, whatever happened
            else:
                run(config, to)
        except CommandError as error:
            return str(error)
        swallowed = config.attributes.get("swallowed")
        return str(swallowed) if swallowed is not None else None

    def script(self, revisions: str = "a0:head", *, x: tuple[str, ...] = (), to: str = "upgrade") -> str:
        """Return what `--sql` writes."""
        config = self.config(x=x)
        config.output_buffer = written = io.StringIO()
        getattr(command, to)(config, revisions, sql=True)
        return written.getvalue()

    def version(self) -> str | None:
        rows = self.database.rows("SELECT version_num FROM alembic_version")
        return str(rows[0][0]) if rows else None


class _Options:
    """What Alembic's command line would have left."""

    def __init__(self, x: list[str]) -> None:
        self.x = x


def open_guarded(to: Path, database: Database) -> Guarded:
    root = Path(shutil.copytree(PROJECTS / "guarded", to / "guarded"))
    project = Guarded(root, database)
    project.use("generic")
    return project
