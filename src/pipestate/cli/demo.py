"""`pipestate demo`: the main job on a PostgreSQL of its own, with real commands and their real output."""

import os
import subprocess
import sys

from rich.console import Console
from sqlalchemy import URL, Connection, create_engine, text

from pipestate import scene
from pipestate.config import project_root
from pipestate.embedded import embedded_server
from pipestate.errors import PipestateError

LEGACY = text(
    "SELECT md5(string_agg(s::text || p::text, ',' ORDER BY s.subdomain)) FROM "
    "(SELECT subdomain, status, extraction_status, last_updated, last_deployed, last_extracted FROM sites) s "
    "JOIN (SELECT subdomain, current_stage, stage_total, stage_completed, started_at, updated_at "
    "FROM site_progress) p USING (subdomain)"
)


class DemoFailed(PipestateError):
    """A step of the demo did not end as it should."""

    exit_code = 1


def demo() -> None:
    """Show the main job on a PostgreSQL that is started for it and thrown away.

    Example: pipestate demo
    """
    console = Console(highlight=False)
    console.print("A PostgreSQL out of a wheel; nothing to set up, nothing stays behind.", style="dim")
    with embedded_server() as url:
        engine = create_engine(url)
        with engine.begin() as connection:
            scene.build(connection)
        _tell(console, f"The old world: {scene.SITES} sites, {scene.STUCK} stuck in OCR, kept in two places.")
        _alembic(console, url, "upgrade", "0005")
        _tell(console, "Expanded: counters, ledger, pipeline state. Now the destructive part, too early:")
        _alembic(console, url, "upgrade", "head", refused=True)
        _alembic(console, url, "current")
        with engine.begin() as connection:
            scene.let_days_pass(connection)
            before = _fingerprint(connection)
        _tell(console, "The old code is switched off, and days pass (the demo makes its own rows older):")
        _alembic(console, url, "upgrade", "head")
        _tell(console, "And back, as if it had never happened:")
        _alembic(console, url, "downgrade", "-2")
        with engine.begin() as connection:
            after = _fingerprint(connection)
        if before != after:
            raise DemoFailed("the downgrade did not bring back what was there: please report this")
        _tell(console, f"Every row and value of the {scene.SITES} sites is back (md5 {after}).")
        _alembic(console, url, "upgrade", "head")
        engine.dispose()


def _tell(console: Console, sentence: str) -> None:
    console.print(f"\n{sentence}", style="bold")


def _alembic(console: Console, url: URL, *arguments: str, refused: bool = False) -> None:
    """Print the command, run it, and let its own output through."""
    console.print(f"$ alembic {' '.join(arguments)}", style="cyan")
    sys.stdout.flush()
    done = subprocess.run(
        [sys.executable, "-m", "alembic", "-c", str(project_root() / "alembic.ini"), *arguments],
        env={**os.environ, "PIPESTATE_DATABASE_URL": url.render_as_string(hide_password=False)},
        stderr=subprocess.STDOUT,
        check=False,
    )
    if (done.returncode != 0) is not refused:
        raise DemoFailed(f"alembic {' '.join(arguments)} ended with {done.returncode}")


def _fingerprint(connection: Connection) -> str:
    return str(connection.scalar(LEGACY))
