"""How to call pipestate and Alembic for a project and its database: for the next steps that messages name."""

import os
import shlex
from dataclasses import dataclass, field

from pipestate.chain.project import Named


@dataclass(frozen=True, slots=True)
class Calls:
    """The options that were given, to be given again. `database` is a URL without its password."""

    named: Named = field(default_factory=Named)
    database: str | None = None

    def pipestate(self, command: str) -> str:
        """Return a command line of pipestate.

        >>> Calls(Named(shipped=True)).pipestate("gate readiness")
        'pipestate gate readiness --shipped'
        """
        named = self.named
        options = _option("--config", named.config) + _option("--name", named.section)
        options += _option("--scripts", named.scripts) + (["--shipped"] if named.shipped else [])
        return " ".join(["pipestate", command, *options, *_option("--database-url", self.database)])

    def alembic(self, command: str) -> str:
        """Return a command line of Alembic; only the shipped env.py takes the URL as an option.

        >>> from pathlib import Path
        >>> Calls(Named(config=Path("db/alembic.ini"), section="sales")).alembic("upgrade head")
        'alembic -c db/alembic.ini -n sales upgrade head'
        """
        named = self.named
        options = _option("-c", named.config) + _option("-n", named.section)
        if named.shipped:
            options += ["-c", '"$(pipestate --alembic-ini)"']
            options += _option("-x", f"url={self.database}" if self.database else None)
        return " ".join(["alembic", *options, command])


def _option(name: str, value: os.PathLike[str] | str | None) -> list[str]:
    return [name, shlex.quote(os.fspath(value))] if value else []
