"""Observations: outside facts, written down so that SQL can check them."""

import math
from collections.abc import Mapping

from sqlalchemy import Connection, insert

from pipestate.errors import ConfigError
from pipestate.ledger.actor import who
from pipestate.ledger.state import require_ledger
from pipestate.ledger.tables import ledger_on


def observe(connection: Connection, facts: Mapping[str, float], *, source: str, revision: str | None) -> None:
    """Write facts down; `source` says which probe, or that a person gave them."""
    require_ledger(connection)
    rows = [
        {"name": name, "value": value, "source": source, "actor": who(), "revision": revision}
        for name, value in facts.items()
    ]
    if rows:
        connection.execute(insert(ledger_on(connection.dialect.name).observation), rows)


def parse_fact(text: str) -> tuple[str, float]:
    """Read `name=value` as it is given to `observe --set`.

    >>> parse_fact("open_tickets=12")
    ('open_tickets', 12.0)
    """
    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not equals or not name.strip() or not math.isfinite(number):
        raise ConfigError(f"--set {text}: write name=value with a number, for example --set open_tickets=12")
    return name.strip(), number
