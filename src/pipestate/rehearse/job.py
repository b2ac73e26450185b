"""What is rehearsed, and where."""

from dataclasses import dataclass

from sqlalchemy import URL

from pipestate import db
from pipestate.chain.graph import Chain
from pipestate.chain.project import Project
from pipestate.chain.version_table import Locator
from pipestate.config import shown


@dataclass(frozen=True, slots=True)
class Job:
    """What is rehearsed where; without a known production there is nothing to compare the clone with."""

    clone: URL
    production: URL | None
    project: Project
    chain: Chain
    locate: Locator
    called: str | None = None

    @property
    def clone_name(self) -> str:
        """What the clone is called in a result: of one that we made, the URL would say nothing."""
        return self.called or shown(self.clone)

    def where(self) -> str | None:
        """Say at which revision the clone is now."""
        with db.reader(self.clone) as connection:
            return self.locate(connection).current
