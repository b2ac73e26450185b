"""A check that asks a ledger which is not there: the sentence that says so, and how to get one."""

import re

HOW_TO_INSTALL = "run `pipestate ledger install`, or a revision that calls install_ledger()"
NO_LEDGER = f"this database has no ledger: {HOW_TO_INSTALL}"

UNDEFINED_TABLE = "42P01"
_ON_POSTGRESQL = re.compile(r"\bpipestate\.\w+")
_ON_SQLITE = re.compile(r"no such table: pipestate_(?!archive_|alembic_)\w+")


def explain_missing_ledger(message: str, sqlstate: str | None = None) -> str:
    """Replace a driver's words about a table of the ledger by what to do; leave every other message.

    >>> explain_missing_ledger('relation "pipestate.soak" does not exist', "42P01") == NO_LEDGER
    True
    >>> explain_missing_ledger("no such table: orders")
    'no such table: orders'
    """
    missing = _ON_POSTGRESQL.search(message) if sqlstate == UNDEFINED_TABLE else _ON_SQLITE.search(message)
    return NO_LEDGER if missing else message
