"""Writer of runs, their results, rehearsals, sign-offs and observations: this module only inserts rows.

On PostgreSQL `pipestate.record_gate` records gates, with the same columns. The server's clock gives the time.
Sign-offs and observations are facts from people and outside systems, recorded for SQL checks.
"""

import getpass
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any
from unicodedata import category, normalize

from sqlalchemy import Connection, bindparam, insert, null, select, text

from pipestate.core.errors import ConfigError
from pipestate.database.connections import choose, engine_of
from pipestate.ledger.state import (
    LedgerState,
    make_own,
    require_ledger,
    this_database,
)
from pipestate.ledger.tables import ledger_on, query
from pipestate.project.graph import Position
from pipestate.runbook.model import Phase, Runbook, SignOff
from pipestate.verify.report import Gate, Report, count
from pipestate.verify.session_safety import foreign_owner_query

# A container's user is often root, so the launcher or the CI names the person.
VARIABLES = ("PIPESTATE_ACTOR", "GITHUB_ACTOR", "GITLAB_USER_LOGIN")
# Version table with its schema, quoted as in `version_table.candidates`: projects may have the same revision ids.
_VERSION_TABLE = {
    "postgresql": """(SELECT '"' || replace(n.nspname, '"', '""') || '"."' || replace(c.relname, '"', '""') || '"'
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = pg_catalog.to_regclass(:version_table))""",
    "sqlite": ":version_table",
}
REHEARSE, COMPAT = "rehearse", "compat"


def who(environ: Mapping[str, str] | None = None) -> str:
    """Name the person: PIPESTATE_ACTOR, else the CI's own variable, else the user of the operating system.

    >>> who({"PIPESTATE_ACTOR": " ", "GITHUB_ACTOR": "octocat"})
    'octocat'
    """
    environ = os.environ if environ is None else environ
    for name in VARIABLES:
        if person := " ".join(environ.get(name, "").split()):
            return person
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


class Event(StrEnum):
    """Reason for a row in `run`."""

    VERIFY = "verify"
    GATE = "gate"
    FORCE = "force"
    PURGE = "purge"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    ADOPT = "adopt"
    STAMP = "stamp"


# Events that only record an applied or reverted revision.
WRITTEN_BY_ITSELF = (Event.UPGRADE, Event.DOWNGRADE, Event.STAMP)


def record_report(
    connection: Connection,
    report: Report,
    *,
    event: str,
    actor: str | None = None,
    reason: str | None = None,
    revision: str | None = None,
) -> int:
    """Write a row for each evaluated phase and for each of its checks; return the number of phases.

    `revision` is the one that a migration is about to run. The default is the database's current revision.
    """
    require_ledger(connection)
    evaluated = [
        (runbook, phase) for runbook, phase in report.phases() if phase.gate in (Gate.OPEN, Gate.CLOSED)
    ]
    for runbook, phase in evaluated:
        values = {
            "runbook": runbook.name,
            "phase": phase.name,
            "gate": str(phase.gate),
            "runbook_sha256": runbook.sha256,
            "phase_sha256": phase.text_sha256,
            "duration_ms": round(sum(verdict.duration_ms for verdict in phase.checks), 1),
            **count(phase.checks),
            "event": Event(event),
            "actor": actor or who(),
            "revision": revision or report.database.revision,
            "reason": reason,
        }
        results = [
            {
                "check_id": verdict.check_id,
                "outcome": str(verdict.outcome),
                "level": str(verdict.level),
                "required": verdict.require,
                "observed": dict(verdict.observed),
                "message": verdict.message,
                "duration_ms": verdict.duration_ms,
            }
            for verdict in phase.checks
        ]
        _insert(connection, values, results)
    return len(evaluated)


def record_event(
    connection: Connection,
    event: str,
    *,
    revision: str | None,
    reason: str | None = None,
    actor: str | None = None,
    duration_ms: float | None = None,
    title: str | None = None,
    file_sha256: str | None = None,
    version_table: str | None = None,
    dropped: Sequence[Mapping[str, Any]] | None = None,
    state: LedgerState | None = None,
) -> None:
    """Write a row outside any phase: a purge, or an applied or reverted revision.

    A revision has a `title`, the `file_sha256` of its file, and the quoted `version_table` of its migrations.
    `dropped` lists the dropped objects. `state` is the ledger state that the caller has just read.
    """
    require_ledger(connection, state)
    values = {
        "event": Event(event),
        "actor": actor or who(),
        "revision": revision,
        "reason": reason,
        "duration_ms": duration_ms,
        "title": title,
        "file_sha256": file_sha256,
        "version_table": version_table
        and text(choose(_VERSION_TABLE, connection)).bindparams(version_table=version_table),
        "dropped": null() if dropped is None else list(dropped),
    }
    _insert(connection, values, [])


def _insert(connection: Connection, values: Mapping[str, Any], results: list[dict[str, Any]]) -> None:
    ledger = ledger_on(connection.dialect.name)
    row = {**values, "database": this_database(connection)}
    run_id = connection.execute(insert(ledger.run).values(**row).returning(ledger.run.c.id)).scalar_one()
    if results:
        connection.execute(insert(ledger.result), [{"run_id": run_id, **result} for result in results])


def record_schema(connection: Connection, revision: str | None) -> None:
    """Record the current schema; PostgreSQL skips a record that equals the last one."""
    from pipestate.ledger.functions import (
        require_functions,  # reads every function; other writers do not need it
    )

    if not engine_of(connection).IS_FILE:
        require_functions(connection)
    statement = text(query("record_schema", connection.dialect.name)).bindparams(
        bindparam("revision"), bindparam("actor")
    )
    connection.execute(statement, {"revision": revision, "actor": who()})


def script_record(revision: str | None) -> str:
    """Render the statement that records the schema at the end of a psql script, if the ledger exists.

    The revisions are already applied, so a failure is a warning, as in an online run.
    """
    literal = "NULL" if revision is None else "'" + revision.replace("'", "''") + "'"
    actor = "'" + who().replace("'", "''") + "'"
    owner = foreign_owner_query()
    return query("record_schema_in_script", revision=literal, actor=actor, foreign_owner=owner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """One rehearsal. If a revision failed or a write is broken, its figures are None and all checks fail.

    `tables` has the clone's row count for each locked table; `scale` is the largest factor of the estimates.
    """

    revision: str | None
    target: str | None
    files: Mapping[str, str]
    clone: str
    ok: bool
    duration_ms: float
    kind: str = REHEARSE
    rows: int = 0
    longest_wait_ms: float | None = None
    idle_wait_ms: float | None = None
    bounded: bool | None = None
    tables: Mapping[str, int] | None = None
    scale: float | None = None
    statements: int | None = None
    broken: int | None = None
    changed: int | None = None
    unprepared: int | None = None
    watch: Mapping[str, Any] | None = None


def record_rehearsal(connection: Connection, done: Rehearsed) -> None:
    """Write a rehearsal into the ledger of its target database."""
    require_ledger(connection)
    table = ledger_on(connection.dialect.name).rehearsal
    values = {name: null() if value is None else value for name, value in asdict(done).items()}
    connection.execute(insert(table).values(**values, actor=who(), database=this_database(connection)))


def adopt(connection: Connection, *, revision: str | None) -> str | None:
    """Change records of other databases into records of this one; describe them, else return None."""
    require_ledger(connection)
    if adopted := make_own(connection):
        record_event(connection, Event.ADOPT, revision=revision, reason=adopted)
    return adopted


@dataclass(frozen=True, slots=True)
class SignOffRequest:
    """A sign-off, and the runbook phase that requires it."""

    runbook: Runbook
    phase: Phase
    signoff: SignOff

    @property
    def address(self) -> str:
        return f"{self.runbook.name}/{self.phase.name}/{self.signoff.id}"


def find_signoff(name: str, runbooks: Sequence[Runbook], position: Position) -> SignOffRequest:
    """Find the sign-off for `[[RUNBOOK/]PHASE/]ID`.

    A bare id selects the only phase that requires it and applies at the database's revision. An ambiguous or
    unknown name is refused, with the list of valid names.
    """
    every = [
        SignOffRequest(runbook, phase, signoff)
        for runbook in runbooks
        for phase in runbook.phases
        for signoff in phase.signoffs
    ]
    found = [request for request in every if f"/{request.address}".endswith(f"/{name}")]
    if not found:
        known = ", ".join(sorted(request.address for request in every))
        raise ConfigError(
            f"no runbook has a sign-off {name}; " + (f"there are {known}" if known else "none here has any")
        )
    chosen = found
    if "/" not in name:
        chosen = [each for each in found if position.place(each.phase.from_, each.phase.until) is None]
    if len(chosen) == 1:
        return chosen[0]
    at = f"at revision {position.current or 'base'}"
    why = (
        f"is a sign-off of {len(chosen)} phases" if chosen else f"is a sign-off of no phase that applies {at}"
    )
    raise ConfigError(
        f"{name} {why}: say which of {', '.join(request.address for request in chosen or found)}"
    )


# Characters that show nothing, though Unicode counts them as letters or marks.
_INVISIBLE = {*"\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"}
_INVISIBLE |= {
    chr(code) for codes in ((0x180B, 0x1810), (0xFE00, 0xFE10), (0xE0100, 0xE01F0)) for code in range(*codes)
}


def person_of(by: str) -> str:
    """Normalize a person's name: composed characters, without invisible ones.

    >>> person_of(" Jose\u0301  Ruiz\u200b ") == "Jos\u00e9 Ruiz"
    True
    """
    seen = "".join(
        each for each in normalize("NFKC", by) if category(each) != "Cf" and each not in _INVISIBLE
    )
    return " ".join(seen.split())


def attest(
    connection: Connection, request: SignOffRequest, *, by: str, note: str | None, revision: str | None
) -> None:
    """Record a person's sign-off."""
    require_ledger(connection)
    person = person_of(by)
    if not person:
        raise ConfigError("--by is empty: name the person who signs off")
    table = ledger_on(connection.dialect.name).attestation
    # Reuse the recorded spelling: some servers cannot compare names case-insensitively.
    signed = select(table.c.person).where(table.c.name == request.signoff.id).distinct()
    known = (str(each) for each in connection.execute(signed).scalars())
    person = next((each for each in known if each.casefold() == person.casefold()), person)
    values = {
        "runbook": request.runbook.name,
        "phase": request.phase.name,
        "name": request.signoff.id,
        "person": person,
        "note": note,
        "revision": revision,
        "text_sha256": request.signoff.text_sha256,
        "database": this_database(connection),
    }
    connection.execute(insert(table).values(**values))


def observe(connection: Connection, facts: Mapping[str, float], *, source: str, revision: str | None) -> None:
    """Record facts; `source` names the probe, or says that a person gave them."""
    require_ledger(connection)
    rows = [
        {"name": name, "value": value, "source": source, "actor": who(), "revision": revision}
        for name, value in facts.items()
    ]
    if rows:
        connection.execute(insert(ledger_on(connection.dialect.name).observation), rows)


def parse_fact(text: str) -> tuple[str, float]:
    """Parse the `name=value` argument of `observe --set`.

    >>> parse_fact("open_tickets=12")
    ('open_tickets', 12.0)
    """
    name, equals, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not equals or not name.strip() or not math.isfinite(number):
        raise ConfigError(f"--set {text}: write name=value with a number, for example --set open_tickets=12")
    return name.strip(), number
