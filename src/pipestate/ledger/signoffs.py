"""Sign-offs and observations: facts from people and outside systems, recorded for SQL checks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from unicodedata import category, normalize

from sqlalchemy import Connection, insert, select

from pipestate.core.errors import ConfigError
from pipestate.ledger.record import who
from pipestate.ledger.state import require_ledger, this_database
from pipestate.ledger.tables import ledger_on
from pipestate.project.graph import Position
from pipestate.runbook.model import Phase, Runbook, SignOff


@dataclass(frozen=True, slots=True)
class SignOffRequest:
    """A sign-off, and the runbook phase that requires it."""

    runbook: Runbook
    phase: Phase
    signoff: SignOff

    @property
    def address(self) -> str:
        return f"{self.runbook.name}/{self.phase.name}/{self.signoff.id}"

    def applies_at(self, position: Position) -> bool:
        return position.place(self.phase.from_, self.phase.until) is None


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
    found = [asked for asked in every if f"/{asked.address}".endswith(f"/{name}")]
    if not found:
        known = ", ".join(sorted(asked.address for asked in every))
        raise ConfigError(
            f"no runbook asks for {name}; " + (f"there are {known}" if known else "none here has a sign-off")
        )
    chosen = found if "/" in name else [asked for asked in found if asked.applies_at(position)]
    if len(chosen) == 1:
        return chosen[0]
    at = f"at revision {position.current or 'base'}"
    why = f"is asked for by {len(chosen)} phases" if chosen else f"is asked for by no phase that applies {at}"
    raise ConfigError(f"{name} {why}: say which of {', '.join(asked.address for asked in chosen or found)}")


def person_of(by: str) -> str:
    """Normalize a person's name: composed characters, without invisible ones.

    >>> person_of(" Jose\u0301  Ruiz\u200b ") == "Jos\u00e9 Ruiz"
    True
    """
    seen = "".join(each for each in normalize("NFKC", by) if category(each) != "Cf")
    return " ".join(seen.split())


def attest(
    connection: Connection, asked: SignOffRequest, *, by: str, note: str | None, revision: str | None
) -> None:
    """Record a person's sign-off."""
    require_ledger(connection)
    person = person_of(by)
    if not person:
        raise ConfigError("--by is empty: say whose word it is")
    table = ledger_on(connection.dialect.name).attestation
    # Reuse the recorded spelling: some servers cannot compare names case-insensitively.
    signed = select(table.c.person).where(table.c.name == asked.signoff.id).distinct()
    known = (str(each) for each in connection.execute(signed).scalars())
    person = next((each for each in known if each.casefold() == person.casefold()), person)
    values = {
        "runbook": asked.runbook.name,
        "phase": asked.phase.name,
        "name": asked.signoff.id,
        "person": person,
        "note": note,
        "revision": revision,
        "text_sha256": asked.signoff.text_sha256,
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
