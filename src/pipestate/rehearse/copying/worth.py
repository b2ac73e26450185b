"""Is a copy of production worth making? What would be refused afterwards is refused before."""

from collections.abc import Sequence

from sqlalchemy import URL

from pipestate import db
from pipestate.chain.graph import Chain
from pipestate.chain.version_table import Locator
from pipestate.config import shown
from pipestate.errors import ConfigError
from pipestate.ledger.state import require_ledger


def require_worth(
    production: URL, chain: Chain, locate: Locator, wanted: Sequence[str], *, record: bool
) -> None:
    """Refuse production where nothing is pending, or where the result could not be recorded."""
    with db.reader(production) as connection:
        position = locate(connection)
        if record:
            require_ledger(connection)
    if not chain.ancestors(wanted) - position.applied:
        at = position.current or "base"
        raise ConfigError(f"nothing is pending: {shown(production)} is at {at}, so no clone was made")
