"""The archive: what a contract takes away, and how it comes back."""

from collections.abc import Mapping, Sequence

from pipestate.ddl.contract_parts import GoingColumns, GoingTable
from pipestate.ddl.engine import engine
from pipestate.ddl.mark import require_gate


def archive_table(table: str) -> None:
    """Move a table into the archive, where it exists.

    Its outgoing foreign keys are dropped and written down: an archived one would still hold back
    deletes. What points at the table, or reads it, is refused: it would follow into the archive.
    """
    require_gate(f"archive_table({table!r})", table)
    engine().archive_table(GoingTable(table))


def restore_table(table: str) -> None:
    """Bring a table back, with its foreign keys; refuse where its archive is gone.

    A foreign key that rows break meanwhile, because their parents are gone, comes back NOT VALID, with a warning:
    the rows are kept.
    """
    going = GoingTable(table)
    engine().require_archived(going)
    engine().restore_table(going)
    engine().forget_archived(going)


def archive_columns(
    table: str,
    columns: Sequence[str],
    *,
    key: Sequence[str] = (),
    changed_at: str | None = None,
    revision: str = "",
) -> None:
    """Copy the columns' values aside, in batches, and keep the copy true until the columns go.

    Run again, it goes on where it stopped. Rows are found again by `key`, their primary key unless given. Where
    `changed_at` names a column, the copy keeps it too: a row in which it is another one later has changed since.
    `revision` keeps the copy apart from those of other revisions. Call it in a gate's `prepare`; inside the body,
    or where the transaction is not Alembic's own, it copies in one statement, under the lock.
    """
    going = GoingColumns(table, tuple(columns), tuple(key), {}, changed_at, revision)
    engine().archive_columns(going)


def drop_archived_columns(table: str, columns: Sequence[str], *, revision: str = "") -> None:
    """Drop columns that were copied aside, and write down what hung on them. The caller holds the lock."""
    require_gate(f"drop_archived_columns({table!r}, ...)", table)
    engine().drop_archived_columns(GoingColumns(table, tuple(columns), revision=revision))


def abandon_archived_columns(table: str, columns: Sequence[str], *, revision: str = "") -> None:
    """Take back what an archiving that never came to its end has left: the triggers and the copy."""
    engine().abandon_archived_columns(GoingColumns(table, tuple(columns), revision=revision))


def restore_columns(
    table: str,
    columns: Sequence[str],
    *,
    key: Sequence[str] = (),
    changed_at: str | None = None,
    derived: Mapping[str, str] | None = None,
    revision: str = "",
) -> None:
    """Bring archived columns back with every value; refuse where their archive is gone.

    Rows that changed since, or that are new, get what `derived` says: expressions over a row `s` and its archived
    values `a`, which are texts. Where that is NULL, the archived value or the default stays.
    """
    going = GoingColumns(table, tuple(columns), tuple(key), derived or {}, changed_at, revision)
    engine().require_archived(going)
    engine().restore_columns(going)
    engine().forget_archived(going)


def drop_archive_if_empty() -> None:
    """Leave no empty archive behind at the end of `downgrade base`."""
    engine().drop_archive_if_empty()
