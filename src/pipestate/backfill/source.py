"""Backfills of a project by name; their tables, keys, and ranges of keys."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection

from pipestate.core.errors import ConfigError
from pipestate.ledger.backfills import Work
from pipestate.ledger.contracts import explain_refusal, find_applied_contract
from pipestate.project.graph import Place, Position
from pipestate.runbook.model import Backfill, Phase, Runbook
from pipestate.runbook.variants import as_read_by

_NUMBER = re.compile(r"-?[0-9]+")
AS_WRITTEN = {"no_parameters": True}
HOW = "a backfill is a runbook block with `-- backfill:`, `-- table:` and `-- key:` (docs/how-to/backfill.md)"


@dataclass(frozen=True, slots=True)
class Key:
    """A table and its key in SQL notation; `type` is the column type, empty on SQLite.

    `row` lists the columns that identify a row, because the key may repeat. `text` is the expression of a key as text.
    """

    table: str
    column: str
    type: str = ""
    nullable: bool = False
    row: tuple[str, ...] = ("tableoid", "ctid")
    text: str = "{column}::text"

    def literal(self, text: str) -> str:
        """Render a key as an SQL literal from the ledger's text.

        >>> Key("t", "id", "bigint").literal("-7"), Key("t", "id", "uuid").literal("o'neil")
        ('-7', "'o''neil'::uuid")
        """
        if not self.type or (self.type in ("smallint", "integer", "bigint") and _NUMBER.fullmatch(text)):
            return text  # SQLite's keys are stored as literals
        quoted = text.replace("'", "''")
        return f"'{quoted}'::{self.type}"


@dataclass(frozen=True, slots=True)
class Range:
    """Keys of one batch, from the first to the last; `full` means that more may follow."""

    first: str
    last: str
    rows: int
    full: bool


def next_range(connection: Connection, key: Key, after: str | None, size: int) -> Range | None:
    """Find the keys of the next batch along the index; None at the end."""
    behind = "IS NOT NULL" if after is None else f"> {key.literal(after)}"
    keys = _keys(key, behind)
    first, last = read_row(connection, f"SELECT ({keys} LIMIT 1), ({keys} LIMIT 1 OFFSET {size - 1})")
    if first is None or last is not None:
        return None if first is None else Range(str(first), str(last), size, True)
    rows = f"SELECT count(*) FROM {key.table} AS k WHERE k.{key.column} {behind}"
    last, number = read_row(connection, f"SELECT ({keys} DESC LIMIT 1), ({rows})")
    return Range(str(first), str(last), int(number), False)


def extremes(connection: Connection, key: Key) -> tuple[str, str] | None:
    """Find the smallest and the largest key; None for an empty table."""
    keys = _keys(key, "IS NOT NULL")
    first, last = read_row(connection, f"SELECT ({keys} LIMIT 1), ({keys} DESC LIMIT 1)")
    return None if first is None else (str(first), str(last))


def read_row(connection: Connection, statement: str) -> Any:
    return connection.exec_driver_sql(statement, execution_options=AS_WRITTEN).one()


def _keys(key: Key, condition: str) -> str:
    """Build the query for sorted keys; the qualified name makes ORDER BY use the column, not its text."""
    column = f"k.{key.column}"
    shown = key.text.format(column=column)
    return f"SELECT {shown} FROM {key.table} AS k WHERE {column} {condition} ORDER BY {column}"


# Backfills of a project's runbooks, by name: `orders/state`, or `state` if only one runbook has it.


@dataclass(frozen=True, slots=True)
class Found:
    """A backfill for one engine, with its runbook and phase."""

    runbook: Runbook
    phase: Phase
    backfill: Backfill

    @property
    def address(self) -> str:
        return f"{self.runbook.name}/{self.backfill.id}"

    @property
    def work(self) -> Work:
        """Return the identity for the ledger; a changed table, key or SQL restarts the backfill."""
        own = self.backfill
        text = "\0".join((own.table, own.key, own.sql))
        return Work(self.runbook.name, own.id, own.table, own.key, sha256(text.encode()).hexdigest())


def every_backfill(runbooks: Sequence[Runbook]) -> list[str]:
    """List the addresses of all backfills, in runbook order."""
    return [
        f"{runbook.name}/{id}"
        for runbook in runbooks
        for phase in runbook.phases
        for id in dict.fromkeys(each.id for each in phase.backfills)
    ]


def find_backfill(name: str, runbooks: Sequence[Runbook], dialect: str) -> Found:
    """Find the backfill for `[RUNBOOK/]ID`; refuse an ambiguous or unknown name, and list the valid ones."""
    known = every_backfill(runbooks)
    named = [address for address in known if f"/{address}".endswith(f"/{name}")]
    if not named:
        raise ConfigError(f"no runbook has a backfill {name}; {list_known(known)}")
    if len(named) > 1:
        raise ConfigError(f"backfill {name} is in {len(named)} runbooks: name one of {', '.join(named)}")
    for runbook in runbooks:
        for phase in runbook.phases:
            for backfill in phase.backfills_for(dialect):
                if f"{runbook.name}/{backfill.id}" == named[0]:
                    sql = as_read_by(dialect, backfill.sql)
                    return Found(runbook, phase, replace(backfill, sql=sql, dialect=dialect))
    raise ConfigError(
        f"{named[0]} is for PostgreSQL alone: its runbook says that {dialect} cannot hold this state"
    )


def list_known(known: Sequence[str]) -> str:
    """List the known backfills.

    >>> list_known(["orders/state"])
    'there is orders/state'
    """
    if not known:
        return f"there is none: {HOW}"
    return f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"


def require_phase(connection: Connection, found: Found, position: Position) -> None:
    """Refuse a backfill if its phase does not apply at the database's revision, or its contract has ended it."""
    phase, at = found.phase, position.current or "base"
    place = position.place(phase.from_, phase.until)
    if place is Place.NOT_STARTED:
        raise ConfigError(
            f"{found.address} belongs to phase {phase.name}, which applies from revision {phase.from_} on, and the "
            f"database is at {at}: upgrade first"
        )
    if place is Place.FINISHED:
        raise ConfigError(
            f"{found.address} belongs to phase {phase.name}, which ended with revision {phase.until}, and the "
            f"database is at {at}: there is nothing to fill any more"
        )
    if contract := find_applied_contract(connection, position, found.runbook, phase):
        raise ConfigError(explain_refusal(found.address, contract))
