"""What the benchmarks share: two million sites of the old world, and commands as a DBA runs them."""

import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import psycopg2
from sqlalchemy.engine import URL

from pipestate.database.embedded import embedded_binaries
from pipestate.database.urls import shipped_root

LEGACY = (
    """CREATE TABLE sites (subdomain varchar PRIMARY KEY, name varchar, state varchar, kind varchar,
       scraper varchar, pages integer, start_year integer, extra varchar, country varchar, lat varchar,
       lng varchar, status varchar NOT NULL, extraction_status varchar DEFAULT 'pending', last_updated varchar,
       last_deployed varchar, last_extracted varchar,
       CONSTRAINT known_extraction CHECK (length(extraction_status) > 0))""",
    """CREATE TABLE site_progress (subdomain varchar PRIMARY KEY, current_stage varchar,
       stage_total integer NOT NULL DEFAULT 0, stage_completed integer NOT NULL DEFAULT 0,
       started_at timestamptz, updated_at timestamptz)""",
    """INSERT INTO sites SELECT 'site-' || n, 'City ' || n, 'CA', 'council', 'granicus', mod(n, 500), 2015,
       '{}', 'US', '37.7', '-122.4', 'deployed', 'completed', t, t, t FROM generate_series(1, %(sites)s) n,
       to_char(now() - interval '10 days', 'YYYY-MM-DD"T"HH24:MI:SS') t""",
    """INSERT INTO site_progress SELECT 'site-' || n, 'completed', 1, 1, now() - interval '11 days',
       now() - interval '10 days' FROM generate_series(1, %(sites)s) n""",
    "VACUUM ANALYZE sites, site_progress",
)


def plain(url: URL) -> str:
    return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)


def execute(url: URL, *statements: str, **values: int) -> None:
    with closing(psycopg2.connect(plain(url))) as connection:
        connection.autocommit = True
        for statement in statements:
            connection.cursor().execute(statement, values or None)


def upgrade(database: URL, revision: str) -> None:
    """As a DBA does it. Forced: a gate's checks run, but no sign-off is made up here."""
    command = [sys.executable, "-m", "alembic", "-x", "force=benchmark", "upgrade", revision]
    run(command, {"PIPESTATE_DATABASE_URL": plain(database)})


def downgrade(database: URL, revision: str) -> None:
    run([sys.executable, "-m", "alembic", "downgrade", revision], {"PIPESTATE_DATABASE_URL": plain(database)})


def psql(database: URL, statements: list[str]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
        script.write("".join(f"{statement};\n" for statement in statements))
        script.flush()
        options = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script.name]
        run([str(embedded_binaries() / "psql"), *options, plain(database)], {})


def run(command: list[str], variables: dict[str, str], *, codes: tuple[int, ...] = (0,)) -> None:
    """In a session of its own, as in a DBA's terminal: Linux shares the cores out by session."""
    environment = os.environ | variables
    done = subprocess.run(
        command, cwd=shipped_root(), env=environment, start_new_session=True, capture_output=True, text=True
    )
    if done.returncode not in codes:
        sys.exit(f"{Path(command[0]).name} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
