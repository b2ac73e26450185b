"""`pipestate demo`: the main job on a PostgreSQL of its own, with real commands and their real output."""

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from sqlalchemy import URL, Connection, create_engine, text

from pipestate import scene
from pipestate.config import project_root
from pipestate.embedded import embedded_server
from pipestate.errors import PipestateError

if TYPE_CHECKING:
    from rich.console import Console

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
    from rich.console import Console

    console = Console(highlight=False)
    console.print("A PostgreSQL out of a wheel; nothing to set up, nothing stays behind.", style="dim")
    with embedded_server() as url:
        engine = create_engine(url)
        with engine.begin() as connection:
            scene.build(connection)
        _tell(console, f"The old world: {scene.SITES} sites, {scene.STUCK} stuck in OCR, kept in two places.")
        _run(console, url, "alembic", "upgrade", "0005")
        _tell(console, "Expanded: counters, ledger, pipeline state. May the old tables go?")
        _run(console, url, "pipestate", "gate", "readiness", code=1)
        _tell(console, "No. And Alembic obeys:")
        _run(console, url, "alembic", "upgrade", "head", code=255)
        _run(console, url, "pipestate", "attest", "backup-taken", "--by", "dba@example.com")
        with engine.begin() as connection:
            scene.let_a_week_pass(connection)
            before = _fingerprint(connection)
        _tell(
            console,
            "A week passes. (The demo cannot wait: it makes its own rows a week older and writes the "
            "ledger entries that cron and CI would have written.)",
        )
        _run(console, url, "pipestate", "gate", "readiness")
        _run(console, url, "alembic", "upgrade", "head")
        _tell(console, "And back, as if it had never happened:")
        _run(console, url, "alembic", "downgrade", "-2")
        with engine.begin() as connection:
            after = _fingerprint(connection)
        if before != after:
            raise DemoFailed("the downgrade did not bring back what was there: please report this")
        _tell(console, f"Every row and value of the {scene.SITES} sites is back (md5 {after}).")
        _run(console, url, "alembic", "upgrade", "head")
        engine.dispose()


def _tell(console: "Console", sentence: str) -> None:
    console.print(f"\n{sentence}", style="bold")


def _run(console: "Console", url: URL, program: str, *arguments: str, code: int = 0) -> None:
    """Print the command, run it, and let its own output through."""
    console.print(f"$ {program} {' '.join(arguments)}", style="cyan")
    sys.stdout.flush()
    ini = ["-c", str(project_root() / "alembic.ini")] if program == "alembic" else []
    done = subprocess.run(
        [sys.executable, "-m", program, *ini, *arguments],
        env={**os.environ, "PIPESTATE_DATABASE_URL": url.render_as_string(hide_password=False)},
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != code:
        raise DemoFailed(f"{program} {' '.join(arguments)} ended with {done.returncode}, not {code}")


def _fingerprint(connection: Connection) -> str:
    return str(connection.scalar(LEGACY))
