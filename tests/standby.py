"""A primary and a standby that follows it: real servers out of the wheel."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL

from bed import Database, memory, postgres_binary
from pipestate.embedded import embedded_server


@contextmanager
def replicated(*statements: str) -> Iterator[tuple[Database, Database]]:
    """Start a primary, run statements in its database `civic`, and start a standby that has them, too."""
    with embedded_server(within=memory()) as admin:
        _autocommit(admin, "CREATE DATABASE civic")
        primary = Database(admin.set(database="civic"))
        primary.run(*statements)
        with _standby_of(admin) as standby:
            yield primary, Database(standby.set(database="civic"))


def _autocommit(admin: URL, statement: str) -> None:
    with Database(admin).engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(statement)


@contextmanager
def _standby_of(primary: URL) -> Iterator[URL]:
    sockets = str(primary.query["host"])
    owner = Path(sockets).stat()  # the server does not run as root
    home = Path(tempfile.mkdtemp(prefix="pipestate-standby-", dir=memory()))
    os.chown(home, owner.st_uid, owner.st_gid)
    data = home / "data"
    try:
        backup = ("-h", sockets, "-U", "postgres", "-D", str(data), "-R", "-X", "stream", "-c", "fast")
        _call(owner.st_uid, "pg_basebackup", *backup)
        options = f"-k {home} -h ''"
        _call(owner.st_uid, "pg_ctl", "-D", str(data), "-o", options, "-l", f"{home}/log", "-w", "start")
        try:
            yield primary.update_query_dict({"host": str(home)})
        finally:
            _call(owner.st_uid, "pg_ctl", "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _call(user: int, name: str, *arguments: str) -> None:
    done = subprocess.run(
        [postgres_binary(name), *arguments],
        user=user if os.geteuid() == 0 else None,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
