"""A project of somebody else with one contract: `tests/projects/contracted`, copied, on a database of its own."""

import io
import json
import shutil
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config

from pipestate.ledger.install import install
from support.alembic_runs import psql
from support.servers import Database

# What `alembic stamp a1` makes; without its run, which takes as long as many a test.
STAMPED = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
PROJECT = Path(__file__).parents[1] / "projects" / "contracted"


@dataclass(frozen=True)
class Contracted:
    """That project, run as `how` says: Alembic's own transactions, one transaction for all, or scripts for psql."""

    root: Path
    database: Database
    how: str = "per migration"

    @property
    def takes_columns(self) -> bool:
        return "columns" in json.loads((self.root / "contract.json").read_text(encoding="utf-8"))

    def config(self, *x: str) -> Config:
        config = Config(str(self.root / "alembic.ini"), stdout=io.StringIO(), output_buffer=io.StringIO())
        url = self.database.url.render_as_string(hide_password=False)
        config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
        config.set_main_option("transaction_per_migration", "no" if self.how == "all at once" else "yes")
        if x:
            config.cmd_opts = Namespace(x=list(x))
        return config

    def upgrade(self, revision: str = "b2", *x: str) -> None:
        self._run("upgrade", f"a1:{revision}", revision, x)

    def downgrade(self, revision: str = "a1", *x: str) -> None:
        self._run("downgrade", f"b2:{revision}", revision, x)

    def _run(self, direction: str, span: str, revision: str, x: tuple[str, ...]) -> None:
        if self.how != "script":
            getattr(command, direction)(self.config(*x), revision)
            return
        done = psql(self.database, self._script(direction, span, x), "-v", "ON_ERROR_STOP=1")
        if done.returncode:
            raise ScriptFailed(done.stderr)

    def script(self, direction: str) -> str:
        """What `--sql` writes for the contract."""
        return self._script(direction, "a1:b2" if direction == "upgrade" else "b2:a1", ())

    def _script(self, direction: str, span: str, x: tuple[str, ...]) -> str:
        config = self.config(*x)
        getattr(command, direction)(config, span, sql=True)
        assert isinstance(config.output_buffer, io.StringIO)
        return config.output_buffer.getvalue()


class ScriptFailed(Exception):
    """What psql said."""


def lay_out(root: Path, database: Database, how: str = "per migration", **contract: Any) -> Contracted:
    """Copy the project, write down its contract, and put the database at a1."""
    shutil.copytree(PROJECT, root, dirs_exist_ok=True)
    (root / "contract.json").write_text(json.dumps(contract), encoding="utf-8")
    database.run(STAMPED, "INSERT INTO alembic_version VALUES ('a1')")
    if not database.is_sqlite:
        with database.begin() as connection:
            install(connection)
    return Contracted(root, database, how)
