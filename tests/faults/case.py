"""One command that is interrupted, and how what it leaves is compared with a run that nobody disturbed."""

import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from faults.world import World
from support.alembic_runs import dump
from support.servers import Database

Rows = Mapping[str, Sequence[Hashable]]
INVALID = (
    "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT (indisvalid AND indisready AND indislive)"
)
# What a complaint can be about, as the figures count it.
KINDS = ("lost", "doubled", "different", "unfinished", "too few hits", "tracebacks")


class Complaint(NamedTuple):
    """Something that is wrong after a fault."""

    kind: str
    text: str


class Struck(NamedTuple):
    """What happened to a command, and what it and its next run printed."""

    fault: str
    printed: str


@dataclass(frozen=True)
class Case:
    """A command to interrupt.

    `read` returns what must be as after an undisturbed run, row by row; `wanted` is what is known of it
    beforehand, `schema` the database whose schema must be the same, too. `again` says what finishes the command,
    where that is not the command itself; `complaints` looks at whatever else must hold.
    """

    argv: Sequence[str]
    cwd: Path
    variables: dict[str, str]
    read: Callable[[], Rows]
    wanted: Rows
    databases: Sequence[Database] = ()
    schema: Database | None = None
    again: Callable[[], Sequence[str]] | None = None
    complaints: Callable[[Struck], list[Complaint]] = field(default=lambda struck: [])

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables}


Subject = Callable[[World], Case]


@dataclass(frozen=True)
class Undisturbed:
    """How long a command takes that nobody disturbs, how long of that it is on a server, and what it leaves."""

    seconds: float
    connected_s: float
    rows: Rows
    schema: str | None


def schema_of(case: Case) -> str | None:
    """Dump the schema that is compared, where one is; with the invalid indexes, which pg_dump leaves out.

    The number of a contract comes from a sequence, which skips some after a crash.
    """
    if case.schema is None:
        return None
    found = "\n".join([dump(case.schema), *(str(name) for (name,) in case.schema.rows(INVALID))])
    return re.sub(r"_pipestate_\d+_", "_pipestate_N_", found)


def differences(wanted: Rows, found: Rows) -> list[Complaint]:
    """List the rows that are missing, and those that are there too often or are others."""
    reported = []
    for name, rows in wanted.items():
        missing, more = Counter(rows) - Counter(found[name]), Counter(found[name]) - Counter(rows)
        reported += [Complaint("lost", f"{name}: {_short(row)}") for row in missing]
        reported += [Complaint("doubled", f"{name}: {_short(row)}") for row in more]
    return reported


def compare(case: Case, reference: Undisturbed) -> list[Complaint]:
    """Compare what the command has left with what an undisturbed run leaves."""
    reported = differences(reference.rows, case.read())
    if schema_of(case) != reference.schema:
        reported.append(Complaint("different", "the schema is not the one of an undisturbed run"))
    return reported


def _short(row: Hashable) -> str:
    return repr(row)[:200]
