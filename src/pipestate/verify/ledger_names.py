"""The ledger's names on SQLite, which has no schemas: `pipestate.soak` is read as `pipestate_soak`."""

from pipestate.runbook.statement import tokens

SCHEMA = "pipestate"


def on_sqlite(statement: str) -> str:
    """Replace the dot after the schema's name; strings, comments and quoted names stay as they are.

    >>> on_sqlite("SELECT 'pipestate.run' FROM pipestate.run")
    "SELECT 'pipestate.run' FROM pipestate_run"
    """
    found = list(tokens(statement, "sqlite"))
    for before, dot, after in reversed(list(zip(found, found[1:], found[2:], strict=False))):
        if (
            before.kind == "word"
            and before.text.lower() == SCHEMA
            and dot.text == "."
            and after.kind == "word"
        ):
            statement = f"{statement[: dot.start]}_{statement[after.start :]}"
    return statement
