"""Work on many rows on SQLite: in one statement, because nobody else can write meanwhile."""

from pipestate.ddl import sql


def update_in_batches(
    table: str,
    key: str,
    statement: str,
    *,
    condition: str = "true",
    size: int = 0,
    computed: bool = False,
    quiet: bool = False,
) -> None:
    sql.emit(statement.replace("{range}", "true").replace("{range s}", "true"))
