"""A PostgreSQL of Debian's packages with pg_stat_statements, which the embedded one does not have."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from pipestate.config import parse_url
from support.servers import Database, Postgres, memory

SETTINGS = (
    "-c listen_addresses='' -c fsync=off -c shared_preload_libraries=pg_stat_statements "
    "-c pg_stat_statements.track=all -c pg_stat_statements.max=5000"
)


def debian_binaries() -> Path | None:
    """Find the newest server that has the extension."""
    found = Path("/usr/share/postgresql").glob("*/extension/pg_stat_statements.control")
    versions = sorted(int(path.parts[-3]) for path in found)
    return Path(f"/usr/lib/postgresql/{versions[-1]}/bin") if versions else None


@contextmanager
def counting_server() -> Iterator[Postgres]:
    """Start the server; stop it and remove its files at the end."""
    if debian_binaries() is None:
        pytest.skip("pg_stat_statements comes with Debian's PostgreSQL: apt-get install postgresql")
    directory = Path(tempfile.mkdtemp(prefix="pipestate-counting-", dir=memory()))
    if os.getuid() == 0:  # no server runs as root
        os.chown(directory, pwd.getpwnam("postgres").pw_uid, -1)
    server = Postgres(parse_url(f"postgresql://postgres@/postgres?host={directory}"))
    try:
        _run("initdb", "-D", str(directory / "data"), "-U", "postgres", "-A", "trust", "--no-sync")
        _start(directory)
        yield server
    finally:
        server.engine.dispose()
        _run("pg_ctl", "-D", str(directory / "data"), "-m", "immediate", "stop", check=False)
        shutil.rmtree(directory, ignore_errors=True)


def restart(server: Postgres) -> None:
    """Stop the server cleanly, and start it again."""
    directory = Path(str(server.admin.query["host"]))
    server.engine.dispose()
    _run("pg_ctl", "-D", str(directory / "data"), "-m", "fast", "-w", "stop")
    _start(directory)


def crash(server: Postgres, database: Database) -> None:
    """Kill a backend: the server ends all of them and starts anew, without its statistics.

    A second session tells when the server has ended all of them; until then it still accepts new ones.
    """
    database.leave()
    server.engine.dispose()
    engine = create_engine(database.url, poolclass=NullPool)
    with engine.connect() as victim, engine.connect() as witness:
        os.kill(victim.exec_driver_sql("SELECT pg_backend_pid()").scalar_one(), signal.SIGKILL)
        _wait_until(lambda: not _answers(lambda: witness.exec_driver_sql("SELECT 1")))
        victim.invalidate()
    _wait_until(lambda: _answers(lambda: database.value("SELECT 1")))


def _answers(question: Callable[[], object]) -> bool:
    try:
        question()
    except DBAPIError:
        return False
    return True


def _wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(300):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("the server did not crash, or did not come up again")


def _start(directory: Path) -> None:
    options = f"{SETTINGS} -k {directory}"
    _run("pg_ctl", "-D", str(directory / "data"), "-o", options, "-l", str(directory / "log"), "-w", "start")


def _run(name: str, *arguments: str, check: bool = True) -> None:
    user = pwd.getpwnam("postgres").pw_uid if os.getuid() == 0 else None
    subprocess.run(
        [f"{debian_binaries()}/{name}", *arguments],
        user=user,
        check=check,
        cwd="/",
        stdout=subprocess.DEVNULL,
    )
