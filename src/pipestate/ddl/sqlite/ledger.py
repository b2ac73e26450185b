"""The ledger in a revision on SQLite.

A script cannot look: there `install_ledger` adds nothing to an older ledger, and nothing is removed.
"""

from collections.abc import Sequence

from pipestate.ddl import objects, sql
from pipestate.ddl.notice import warn
from pipestate.ddl.sqlite import look
from pipestate.ledger.install import additions, statements
from pipestate.ledger.record import WRITTEN_BY_ITSELF
from pipestate.ledger.tables import KEPT, VIEWS, ledger_on, qualified


def install_ledger() -> None:
    _install(only=None)


def install_objects() -> None:
    _install(only=("object",))


def remove_ledger() -> None:
    ledger = ledger_on("sqlite")
    tables = [
        table.name for table in reversed(ledger.tables) if table is not ledger.objects or not objects.kept()
    ]
    if any(_is_worth_keeping(table) for table in tables):
        warn(KEPT)
        return
    for view in reversed(VIEWS):
        sql.emit(f"DROP VIEW IF EXISTS {qualified(view, 'sqlite')}")
    for table in tables:
        sql.emit(f"DROP TABLE IF EXISTS {table}")


def remove_objects() -> None:
    if not look.has_table(qualified("run", "sqlite")):  # one that stays keeps its tables
        sql.emit(f"DROP TABLE IF EXISTS {qualified('object', 'sqlite')}")


def _is_worth_keeping(table: str) -> bool:
    """Say whether it has rows besides those that are written by themselves: that a revision was applied."""
    if not look.has_table(table):
        return False
    if table != qualified("run", "sqlite"):
        return look.has_rows(table)
    own = sql.literals(WRITTEN_BY_ITSELF)
    return bool(look.scalar(f"SELECT EXISTS (SELECT 1 FROM {table} WHERE event NOT IN ({own}))"))


def _install(*, only: Sequence[str] | None) -> None:
    more = [] if sql.is_offline() else additions(look.connection())
    for statement in more + statements("sqlite", only=only):
        sql.emit(statement)
