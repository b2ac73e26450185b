"""The wheel's own pg_dump and pg_restore."""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from psycopg2.extensions import make_dsn

from pipestate.embedded import embedded_binaries
from pipestate.engines.postgresql import CONNECT_TIMEOUT_S
from pipestate.rehearse.copying.tunnel import tunnel

Done = subprocess.CompletedProcess[str]


def run_program(version: int, name: str, options: Sequence[str], environment: Mapping[str, str]) -> Done:
    """Run one of PostgreSQL's programs to its end; at Ctrl-C ask it to cancel what it does on the server.

    Only what is given here says where it connects to: PGHOST, PGSSLMODE and the like are somebody else's.
    """
    others = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
    process = subprocess.Popen(
        [str(embedded_binaries(version) / name), *options],
        env={**others, "LC_ALL": "C", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    try:
        out, err = process.communicate()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    return Done(process.args, process.returncode, out, err)


@contextmanager
def way_to(driver: Any, place: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the connection string and the environment with which a program gets where `driver` is connected to.

    A password stands in no command line. The wheel's programs do not know TLS: where the session has it, they go through
    a tunnel of ours.
    """
    info = driver.info
    where = {"user": info.user, "dbname": info.dbname, "options": info.options or None}
    secret = {"PGPASSWORD": info.password} if info.password else {}
    with tunnel(info, place) as (host, port):
        yield make_dsn(**where, host=host, port=port, connect_timeout=CONNECT_TIMEOUT_S), secret


def last_line(done: Done) -> str:
    """Return what a program said last."""
    lines = done.stderr.strip().splitlines()
    return " ".join(lines[-1].split()) if lines else f"it ended with {done.returncode}"
