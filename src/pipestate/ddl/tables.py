"""Tables and views, as revisions create and drop them, and what is said about them."""

from collections.abc import Mapping

import sqlalchemy as sa

from pipestate.ddl.definitions import Index
from pipestate.ddl.engine import engine
from pipestate.ddl.mark import require_gate


def create_table(table: sa.Table, *indexes: Index) -> None:
    """Create the table with its indexes; bring it back where a downgrade put it into the archive.

    A table that is there already is left as it is: adoption is the business of the helpers that
    add columns, constraints and indexes.
    """
    engine().create_table(table, *indexes)


def drop_table(name: str) -> None:
    """Drop a table of ours that is empty; one with rows goes into the archive, and comes back."""
    require_gate(f"drop_table({name!r})", name)
    engine().drop_table(name)


def create_view(name: str, queries: Mapping[str, str], *, comment: str) -> None:
    """Create a view; `queries` has its query for `postgresql` and for `sqlite`."""
    engine().create_view(name, queries, comment=comment)


def drop_view(name: str) -> None:
    """Drop a view that the chain created."""
    require_gate(f"drop_view({name!r})")
    engine().drop_view(name)


def analyze_table(table: str) -> None:
    """Tell the planner what is in new columns and indexes; without that it expects most rows in any of them."""
    engine().analyze_table(table)


def replace_comment(table: str, comment: str, *, revision: str) -> None:
    """Comment on a table, and keep what it said before (PostgreSQL)."""
    engine().replace_comment(table, comment, revision=revision)


def restore_comment(table: str, comment: str, *, revision: str) -> None:
    """Give a table its former comment back, unless it says something else than `comment` by now."""
    engine().restore_comment(table, comment, revision=revision)
