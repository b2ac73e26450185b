"""A hot standby of an embedded server, and one that is started anew: the wheel has all that it takes."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, NullPool, create_engine
from sqlalchemy.exc import OperationalError

from pipestate.database.embedded import embedded_binaries, embedded_server
from support.servers import Database, memory

PATIENCE_S = 30
# A query that stands in the way of replay is cancelled at once.
SETTINGS = ("-c", "max_standby_streaming_delay=100ms", "-c", "hot_standby=on", "-c", "fsync=off")


@contextmanager
def standby_of(primary: URL) -> Iterator[URL]:
    """Copy that server, let the copy follow it, and stop it at the end."""
    data = Path(str(primary.query["host"]))
    owner = data.stat().st_uid if os.getuid() == 0 else None  # no server runs as root
    directory = Path(tempfile.mkdtemp(prefix="pipestate-standby-", dir=memory()))
    copy = directory / "data"
    if owner is not None:
        os.chown(directory, owner, -1)
    try:
        backup = ["-h", str(data), "-U", "postgres", "-D", str(copy), "-R", "-X", "stream", "-c", "fast"]
        subprocess.run([_binary("pg_basebackup"), *backup], user=owner, check=True, env=_environment(owner))
        command = [_binary("postgres"), "-D", str(copy), "-h", "", "-k", str(directory), *SETTINGS]
        with (directory / "log").open("w") as log:
            server = subprocess.Popen(command, user=owner, stdout=log, stderr=log, env=_environment(owner))
        try:
            yield _ready(primary.set(query={"host": str(directory)}), directory / "log")
        finally:
            server.terminate()
            server.wait(PATIENCE_S)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def replicated(*statements: str) -> Iterator[tuple[Database, Database]]:
    """Start a primary, run statements in its database `civic`, and start a standby that has them, too."""
    with embedded_server(within=memory()) as admin:
        with create_engine(admin, poolclass=NullPool, isolation_level="AUTOCOMMIT").connect() as connection:
            connection.exec_driver_sql("CREATE DATABASE civic")
        primary = Database(admin.set(database="civic"))
        primary.run(*statements)
        with standby_of(admin) as standby:
            yield primary, Database(standby.set(database="civic"))


def restart(server: URL) -> None:
    """Stop an embedded server and start it again: some settings are read only then."""
    data = Path(str(server.query["host"]))
    owner = data.stat().st_uid if os.getuid() == 0 else None
    command = [_binary("pg_ctl"), "-D", str(data), "-m", "fast", "-w", "-l", str(data / "log"), "restart"]
    subprocess.run(command, user=owner, check=True, env=_environment(owner), stdout=subprocess.DEVNULL)


def catch_up(primary: Database, standby: Database) -> None:
    """Wait until the standby has replayed all that the primary has written."""
    here = primary.value("SELECT pg_current_wal_insert_lsn()")
    end = time.monotonic() + PATIENCE_S
    while not standby.value(f"SELECT pg_last_wal_replay_lsn() >= '{here}'"):
        assert time.monotonic() < end, "the standby does not catch up"
        time.sleep(0.02)


def _binary(name: str) -> str:
    return str(embedded_binaries() / name)


def _environment(owner: int | None) -> dict[str, str]:
    home = {"HOME": pwd.getpwuid(owner).pw_dir} if owner is not None else {}
    return {**os.environ, **home}


def _ready(url: URL, log: Path) -> URL:
    engine = create_engine(url, poolclass=NullPool)
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            with engine.connect() as connection:
                assert connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one()
                return url
        except OperationalError:
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
