"""Refuse a storage directory that cannot be the right one: unmounted, it reads as sites without documents."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from sqlalchemy import URL, Connection, func, select

from pipestate import db
from pipestate.errors import ConfigError
from pipestate.pipeline.backfill.stale_rows import EXPECTING
from pipestate.pipeline.storage import Documents
from pipestate.schema import sites

NAMES_AT_ONCE = 500
FEW_SITES = 10  # fewer than these prove nothing
LEAST_SHARE = 10  # one site in ten must have a document
WHAT_NEXT = "nothing was written; check that it is mounted, and --storage-dir or STORAGE_DIR"


class Counted(Protocol):
    """What documents are counted in: the storage directory."""

    def documents(self, subdomain: str) -> Documents: ...

    def sites(self) -> Iterator[str]: ...


@dataclass(slots=True)
class DocumentTally:
    """Among the sites that should have documents: how many have any."""

    expected: int = 0
    found: int = 0

    def add(self, expected: int, documents: Documents) -> None:
        """Count a site, where documents are expected of it."""
        if expected:
            self.expected += 1
            self.found += bool(documents.pdfs or documents.texts)

    def require(self) -> None:
        """Refuse where hardly any site has what it should."""
        if self.expected >= FEW_SITES and self.found * LEAST_SHARE < self.expected:
            raise ConfigError(
                f"only {self.found} of {self.expected} sites that should have documents have any in the "
                f"storage directory: {WHAT_NEXT}"
            )


def require_known_sites(url: URL, storage: Counted) -> None:
    """Refuse where documents are expected, and no site of the database has a directory."""
    with db.reader(url) as connection:
        expecting = int(connection.exec_driver_sql(EXPECTING).scalar_one())
        if not expecting:
            return
        names = storage.sites()
        while chunk := list(islice(names, NAMES_AT_ONCE)):
            if _any_known(connection, chunk):
                return
        known = connection.scalar(select(func.count()).select_from(sites))
    raise ConfigError(
        f"none of the {known} sites has a directory in the storage directory, and {expecting} of "
        f"site_progress should have documents: {WHAT_NEXT}"
    )


def _any_known(connection: Connection, names: list[str]) -> bool:
    query = select(sites.c.subdomain).where(sites.c.subdomain.in_(names)).limit(1)
    return connection.execute(query).first() is not None
