"""The lock that a change needs, asked for with patience."""

from pipestate.ddl.engine import engine
from pipestate.ddl.postgresql.locks import LOCK_PATIENCE_S, LOCK_TIMEOUT_MS


def lock_tables(
    *tables: str,
    mode: str = "ACCESS EXCLUSIVE",
    when: str = "true",
    also: str | None = None,
    timeout_ms: int = LOCK_TIMEOUT_MS,
    patience_s: float = LOCK_PATIENCE_S,
) -> None:
    """Lock the tables that exist, until the end of the transaction; call it first in one.

    `when` is an SQL condition: without need there is no lock. `also` is a query for more tables. The request
    waits briefly, lets those behind it pass and asks again; when patience ends it says who is in the way.
    """
    engine().lock_tables(
        *tables, mode=mode, when=when, also=also, timeout_ms=timeout_ms, patience_s=patience_s
    )
