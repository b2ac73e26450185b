"""How things are called in the archive: unique for each schema, table and revision, and never too long."""

from hashlib import sha256

from pipestate.ddl import sql
from pipestate.ddl.contract_parts import GoingColumns, GoingTable

ARCHIVE = "pipestate_archive"
MANIFEST = f"{ARCHIVE}.manifest"
LONGEST = 63


def fitted(name: str) -> str:
    """Shorten a name to what PostgreSQL takes, so that two names do not become one.

    >>> fitted("orders_columns"), fitted("x" * 70)
    ('orders_columns', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_c71bd109')
    """
    raw = name.encode()
    if len(raw) <= LONGEST:
        return name
    digest = sha256(raw).hexdigest()[:8]
    return f"{raw[: LONGEST - 9].decode(errors='ignore')}_{digest}"


def archive_of(table: str) -> str:
    """Name the schema in which a table is archived: names are unique in a schema, so there is one for each.

    >>> archive_of("orders"), archive_of("sales.orders")
    ('pipestate_archive', 'pipestate_archive_sales')
    """
    schema, dot, _ = table.rpartition(".")
    return fitted(f"{ARCHIVE}_{schema}") if dot else ARCHIVE


def aside(table: str) -> str:
    """Name an archived table, ready to stand in SQL."""
    return _within(table, table.rpartition(".")[2])


def copy(columns: GoingColumns) -> str:
    """Name the copy of archived columns."""
    return _within(columns.table, _labelled(columns.table, "columns", columns.revision))


def baseline(table: GoingTable) -> str | None:
    """Name the table that keeps when each row of the source was changed, where that is asked for."""
    if table.derived is None or table.changed_at is None:
        return None
    return _within(table.table, _labelled(table.table, "before", table.revision))


def keeping(columns: GoingColumns) -> dict[str, str]:
    """Name the triggers that keep a copy true, and their function."""
    bare = columns.table.rpartition(".")[2]
    label = f"_{columns.revision}" if columns.revision else ""
    return {
        "the_keep": _within(columns.table, _labelled(f"keep_{bare}", "columns", columns.revision)),
        "the_inserted": fitted(f"pipestate_keep_inserted{label}"),
        "the_updated": fitted(f"pipestate_keep_updated{label}"),
    }


def _labelled(table: str, what: str, revision: str) -> str:
    bare = table.rpartition(".")[2]
    return fitted("_".join(part for part in (bare, what, revision) if part))


def _within(table: str, name: str) -> str:
    return f"{sql.identifier(archive_of(table))}.{sql.identifier(name)}"
