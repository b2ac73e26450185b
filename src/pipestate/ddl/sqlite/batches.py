"""Work on many rows on SQLite: in one statement, because nobody else can write meanwhile."""

from collections.abc import Sequence

from pipestate.ddl import sql
from pipestate.ddl.sqlite import look


def update_in_batches(
    table: str, key: str | Sequence[str], statement: str, *, condition: str = "true", size: int = 0
) -> None:
    if condition == "true" or look.scalar(f"SELECT {condition}"):
        sql.emit(statement.replace("{range}", "true").replace("{range s}", "true"))
