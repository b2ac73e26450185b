"""The backfills of a project's pages, by name: `orders/state`, or `state` where one page has it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from pipestate.chain.position import Place, Position
from pipestate.errors import ConfigError
from pipestate.ledger.backfills import Work
from pipestate.runbook.engines import as_read_by
from pipestate.runbook.model import Backfill, Phase, Runbook

HOW = (
    "a block with `-- backfill:`, `-- table:` and `-- key:` on a page of runbooks/ is one (docs/backfill.md)"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A backfill, as it is run on one engine, and the page and phase where it stands."""

    runbook: Runbook
    phase: Phase
    backfill: Backfill

    @property
    def address(self) -> str:
        return f"{self.runbook.name}/{self.backfill.id}"

    @property
    def work(self) -> Work:
        """What the ledger keeps of it: another table, key or SQL is another work."""
        own = self.backfill
        text = "\0".join((own.table, own.key, own.sql))
        return Work(self.runbook.name, own.id, own.table, own.key, sha256(text.encode()).hexdigest())


def every_backfill(runbooks: Sequence[Runbook]) -> list[str]:
    """List their addresses, in the order of the pages."""
    return [
        f"{runbook.name}/{id}"
        for runbook in runbooks
        for phase in runbook.phases
        for id in dict.fromkeys(each.id for each in phase.backfills)
    ]


def find_backfill(name: str, runbooks: Sequence[Runbook], dialect: str) -> Found:
    """Find the one that `[RUNBOOK/]ID` means; refuse what is not clear, with the names that would be."""
    known = every_backfill(runbooks)
    named = [address for address in known if f"/{address}".endswith(f"/{name}")]
    if not named:
        raise ConfigError(f"no page has a backfill {name}; {told(known)}")
    if len(named) > 1:
        raise ConfigError(f"backfill {name} stands on {len(named)} pages: say which of {', '.join(named)}")
    for runbook in runbooks:
        for phase in runbook.phases:
            for backfill in phase.backfills_for(dialect):
                if f"{runbook.name}/{backfill.id}" == named[0]:
                    return Found(runbook, phase, _as_read_by(backfill, dialect))
    raise ConfigError(
        f"{named[0]} is for PostgreSQL alone: its page says that {dialect} cannot hold this state"
    )


def told(known: Sequence[str]) -> str:
    """Say which backfills there are.

    >>> told(["orders/state"])
    'there is orders/state'
    """
    if not known:
        return f"there is none: {HOW}"
    return f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}"


def require_phase(found: Found, position: Position) -> None:
    """Refuse a backfill whose phase does not apply at the database's revision."""
    phase, at = found.phase, position.current or "base"
    place = position.place(phase.from_, phase.until)
    if place is Place.AHEAD:
        raise ConfigError(
            f"{found.address} belongs to phase {phase.name}, which applies from revision {phase.from_} on, and the "
            f"database is at {at}: upgrade first"
        )
    if place is Place.PAST:
        raise ConfigError(
            f"{found.address} belongs to phase {phase.name}, which ended with revision {phase.until}, and the "
            f"database is at {at}: there is nothing to fill any more"
        )


def _as_read_by(backfill: Backfill, dialect: str) -> Backfill:
    return replace(backfill, sql=as_read_by(dialect, backfill.sql), dialect=dialect)
