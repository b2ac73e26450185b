"""The ledger in a revision on SQLite; a script cannot look, so there it is for a database without one."""

import logging
from collections.abc import Sequence

from alembic import op

from pipestate.ddl import objects, sql
from pipestate.ddl.sqlite import look
from pipestate.ledger.install import additions, statements
from pipestate.ledger.tables import KEPT, VIEWS, ledger_on, qualified

log = logging.getLogger("pipestate")


def install_ledger() -> None:
    _install(only=None)


def install_objects() -> None:
    _install(only=("object",))


def remove_ledger() -> None:
    ledger = ledger_on("sqlite")
    tables = [
        table.name for table in reversed(ledger.tables) if table is not ledger.objects or not objects.kept()
    ]
    if not sql.is_offline() and any(look.has_table(table) and look.has_rows(table) for table in tables):
        log.warning(KEPT)
        return
    for view in reversed(VIEWS):
        sql.emit(f"DROP VIEW IF EXISTS {qualified(view, 'sqlite')}")
    for table in tables:
        sql.emit(f"DROP TABLE IF EXISTS {table}")


def remove_objects() -> None:
    sql.emit(f"DROP TABLE IF EXISTS {qualified('object', 'sqlite')}")


def _install(*, only: Sequence[str] | None) -> None:
    more = [] if sql.is_offline() else additions(op.get_bind())
    for statement in more + statements("sqlite", only=only):
        sql.emit(statement)
