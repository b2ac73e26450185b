"""The README's pictures of `report` and `status`, of the same database. `make pictures` writes them; it needs a browser."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from browser.chrome import chromium
from picture import save_screen
from pipestate.database.embedded import embedded_server
from support import report_scene
from support.alembic_runs import ROOT
from support.programs import run_program
from support.servers import Database
from support.terminal import Typed, in_terminals

DOCS = ROOT / "docs"
REPORT, STATUS = DOCS / "report.png", DOCS / "status.svg"
WIDTH, HEIGHT, MARGIN, COLUMNS = 1120, 900, 24, 100
MOST_BYTES = 300_000


def main() -> None:
    with database() as address:
        typed = Typed(["status", "sites-consolidation"], COLUMNS)
        (written,) = in_terminals([typed], cwd=ROOT, **address)
        save_screen([(typed, written)], STATUS, COLUMNS)
        take_report(address)


@contextmanager
def database() -> Iterator[dict[str, str]]:
    """A database with a past, under a name without a path of this machine; its owner is no superuser."""
    with embedded_server() as url:
        admin = Database(url)
        with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.exec_driver_sql("CREATE ROLE dba LOGIN")
            connection.exec_driver_sql("CREATE DATABASE civic OWNER dba")
        report_scene.build(Database(url.set(username="dba", database="civic")))
        yield {
            "PGHOST": str(url.query["host"]),
            "PGUSER": "dba",
            "DATABASE_URL": "postgresql:///civic",
        }


def take_report(address: dict[str, str]) -> None:
    with TemporaryDirectory() as directory, chromium() as page:
        file = Path(directory) / "report.html"
        command = ["pipestate", "report", "sites-consolidation", "--output", str(file)]
        done = run_program(command, cwd=ROOT, environment={**os.environ, **address})
        assert done.returncode == 0, done.stderr
        page.resize(WIDTH, HEIGHT)
        page.prefer("light")
        page.open(file.as_uri())
        bottom = page.evaluate("document.querySelector('#observations').getBoundingClientRect().bottom")
        page.picture(REPORT, height=bottom + MARGIN)
        assert REPORT.stat().st_size < MOST_BYTES


if __name__ == "__main__":
    main()
