"""Where a backfill takes its rows: a table, the key by whose ranges it goes, and a range of it."""

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"-?[0-9]+")


@dataclass(frozen=True, slots=True)
class Key:
    """A table and its key, as SQL writes them; `type` is the column's, on SQLite nothing."""

    table: str
    column: str
    type: str = ""
    nullable: bool = False

    def literal(self, text: str) -> str:
        """Write a key, which the ledger keeps as a text, as SQL.

        >>> Key("t", "id", "bigint").literal("-7"), Key("t", "id", "uuid").literal("o'neil")
        ('-7', "'o''neil'::uuid")
        """
        if not self.type or (self.type in ("smallint", "integer", "bigint") and _NUMBER.fullmatch(text)):
            return text  # SQLite's keys are kept as literals
        quoted = text.replace("'", "''")
        return f"'{quoted}'::{self.type}"


@dataclass(frozen=True, slots=True)
class Range:
    """The keys of one batch, from the first to the last; `full` says that more may follow."""

    first: str
    last: str
    rows: int
    full: bool
