"""Alembic as the tests call it: in this process, or as a DBA would, in another."""

import io
import os
import subprocess
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from support.programs import run_program
from support.readiness_records import make_ready
from support.servers import Database, postgres_binary

ROOT = Path(__file__).parents[2]


def config_for(url: str, *, x: tuple[str, ...] = ()) -> Config:
    config = Config(str(ROOT / "alembic.ini"), stdout=io.StringIO(), output_buffer=io.StringIO())
    config.cmd_opts = Namespace(x=[f"url={url}", *x])
    return config


def script_for(url: str, direction: str, revisions: str, *x: str) -> str:
    """What `--sql` writes for that engine; no database is needed."""
    config = config_for(url, x=x)
    getattr(command, direction)(config, revisions, sql=True)
    assert isinstance(config.output_buffer, io.StringIO)
    return config.output_buffer.getvalue()


@dataclass(frozen=True)
class Migrations:
    """The shipped migrations on one database."""

    database: Database

    def upgrade(self, revision: str = "head", *x: str) -> None:
        command.upgrade(config_for(self.database.text, x=x), revision)

    def contract(self, revision: str = "0007") -> None:
        """Expand, do what opens the gate, contract."""
        if (self.revision() or "") < "0005":
            self.upgrade("0005")
        make_ready(self.database)
        self.upgrade(revision)

    def downgrade(self, revision: str, *x: str) -> None:
        command.downgrade(config_for(self.database.text, x=x), revision)

    def stamp(self, revision: str) -> None:
        command.stamp(config_for(self.database.text), revision)

    def check(self) -> None:
        command.check(config_for(self.database.text))

    def revision(self) -> str | None:
        with self.database.connect() as connection:
            if not sa.inspect(connection).has_table("pipestate_alembic_version"):
                return None
        rows = self.database.rows("SELECT version_num FROM pipestate_alembic_version")
        return str(rows[0][0]) if rows else None

    def script(self, direction: str, revisions: str, *x: str) -> str:
        """What `--sql` writes."""
        return script_for(self.database.text, direction, revisions, *x)

    def cli(self, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """`alembic ...` in a shell."""
        return run_alembic(*arguments, PIPESTATE_DATABASE_URL=self.database.text, **environment)


def run_alembic(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return run_program(["alembic", *arguments], cwd=ROOT, environment={**os.environ, **environment})


def psql(database: Database, script: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Plain psql, with nothing of the user's settings."""
    return subprocess.run(
        [postgres_binary("psql"), "-X", "-q", *options, database.text],
        input=script,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def dump(database: Database, *options: str) -> str:
    """The schema as pg_dump writes it, without what differs from run to run."""
    done = subprocess.run(
        [postgres_binary("pg_dump"), "--schema-only", "--no-owner", *options, database.text],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = done.stdout.splitlines()
    kept = [
        line for line in lines if line.strip() and not line.startswith(("\\restrict", "\\unrestrict", "--"))
    ]
    return "\n".join(kept)
