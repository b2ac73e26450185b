"""Sign-offs: whose word is asked for where, and writing it down."""

from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import category, normalize

from sqlalchemy import Connection, insert, select

from pipestate.chain.position import Position
from pipestate.errors import ConfigError
from pipestate.ledger.state import require_ledger
from pipestate.ledger.tables import ledger_on
from pipestate.runbook.model import Phase, Runbook, SignOff


@dataclass(frozen=True, slots=True)
class AskedSignOff:
    """A sign-off, and the phase of the runbook that asks for it."""

    runbook: Runbook
    phase: Phase
    signoff: SignOff

    @property
    def address(self) -> str:
        return f"{self.runbook.name}/{self.phase.name}/{self.signoff.id}"

    def applies_at(self, position: Position) -> bool:
        return position.place(self.phase.from_, self.phase.until) is None


def find_signoff(name: str, runbooks: Sequence[Runbook], position: Position) -> AskedSignOff:
    """Find the sign-off that `[[RUNBOOK/]PHASE/]ID` means.

    A bare id means the one phase that asks for it and applies at the database's revision. Whatever is
    not clear is refused, with the names that would be.
    """
    every = [
        AskedSignOff(runbook, phase, signoff)
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
    """Write a name in one way, whatever keyboard it comes from: composed, and without what nobody sees.

    >>> person_of(" Jose\u0301  Ruiz\u200b ") == "Jos\u00e9 Ruiz"
    True
    """
    seen = "".join(each for each in normalize("NFKC", by) if category(each) != "Cf")
    return " ".join(seen.split())


def attest(
    connection: Connection, asked: AskedSignOff, *, by: str, note: str | None, revision: str | None
) -> None:
    """Write a person's word down."""
    require_ledger(connection)
    person = person_of(by)
    if not person:
        raise ConfigError("--by is empty: say whose word it is")
    table = ledger_on(connection.dialect.name).attestation
    # In the spelling that is there: what is the same but for capitals, not every server can tell.
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
    }
    connection.execute(insert(table).values(**values))
