"""The project `tests/projects/shop`, with one contract, under the env.py files of `shop_environments`.

Its gate requires an approval. Nobody has given one when a shop is opened.
"""

import io
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config

from support.miniatures import PROJECTS, copy_project
from support.programs import run_program
from support.servers import Database

ROWS = (
    "INSERT INTO orders VALUES (1, 'a', 'new'), (2, NULL, 'paid')",
    "INSERT INTO order_log VALUES (1, 'x'), (2, '%s :y')",
)
OLD = [(1, "a", "new"), (2, None, "paid")]
LOG = [(1, "x"), (2, "%s :y")]


@dataclass(frozen=True)
class Shop:
    """That project, copied, on a database of its own. Alembic runs in this process, `pipestate` in another."""

    root: Path
    database: Database
    versions: str = "alembic_version"
    options: tuple[str, ...] = ()

    def config(self) -> Config:
        section = self.options[1] if self.options else "alembic"
        return Config(str(self.root / "alembic.ini"), ini_section=section, stdout=io.StringIO())

    def upgrade(self, revision: str = "head") -> None:
        command.upgrade(self.config(), revision)

    def downgrade(self, revision: str) -> None:
        command.downgrade(self.config(), revision)

    def pipestate(self, *arguments: str) -> Any:
        """Run a command that prints JSON, in the project, with the URL that stands in its ini."""
        argv = ["pipestate", *arguments, *self.options, "--json"]
        done = run_program(argv, cwd=self.root, environment=os.environ)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def plan(self) -> tuple[object, str | None]:
        """Return where the database stands, as `plan` says it, and its gate."""
        plan = self.pipestate("plan")
        gates = [gate for step in plan["steps"] for gate in step["gates"]]
        return plan["revision"], gates[0]["gate"] if gates else None

    def fill(self) -> None:
        self.database.run(*ROWS)

    def approve(self) -> None:
        self.database.run("INSERT INTO approvals VALUES ('drop log')")

    def version(self) -> object:
        rows = self.database.rows(f"SELECT version_num FROM {self.versions}")
        return rows[0][0] if rows else None

    def orders(self) -> list[tuple[object, ...]]:
        """The orders with their old status, which the contract takes away."""
        return self.database.rows("SELECT id, old_status, status FROM orders ORDER BY id")

    def log(self) -> list[tuple[object, ...]]:
        return self.database.rows("SELECT id, line FROM order_log ORDER BY id")

    def tables(self) -> set[str]:
        """Every table and view but those of the engine itself."""
        on_postgresql = (
            "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind IN ('r', 'v') AND c.relnamespace NOT IN "
            "('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'pg_toast'::regnamespace)"
        )
        on_sqlite = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        return {
            str(row[0]) for row in self.database.rows(on_sqlite if self.database.is_sqlite else on_postgresql)
        }

    def recorded(self) -> list[tuple[object, ...]]:
        """What the ledger says of c3: event and gate."""
        return self.database.rows("SELECT event, gate FROM pipestate.run WHERE revision = 'c3' ORDER BY id")

    def assert_untouched(self, version: str = "b2") -> None:
        assert (self.version(), self.orders(), self.log()) == (version, OLD, LOG)
        assert not {name for name in self.tables() if "archive" in name or "receipts" in name}

    def assert_contracted(self) -> None:
        assert self.version() == "d4"
        assert "order_log" not in self.tables()
        assert self.database.rows("SELECT id, status FROM orders ORDER BY id") == [(1, "new"), (2, "paid")]
        with pytest.raises(Exception, match="old_status"):
            self.orders()


def open_shop(
    to: Path,
    database: Database,
    environment: str | None = None,
    *,
    driver: str | None = None,
    name: str = "shop",
) -> Shop:
    """Copy the project; give it that env.py, and the database's URL with that driver."""
    root = copy_project(name, to)
    if environment is not None:
        shutil.copyfile(PROJECTS / "shop_environments" / f"{environment}.py", root / "migrations" / "env.py")
    url = database.url.set(drivername=driver or database.url.drivername)
    ini = root / "alembic.ini"
    text = url.render_as_string(hide_password=False).replace("%", "%%")
    ini.write_text(
        re.sub(r"(?m)^(sqlalchemy\.url) = .*$", lambda _: f"sqlalchemy.url = {text}", ini.read_text())
    )
    return Shop(root, database)
