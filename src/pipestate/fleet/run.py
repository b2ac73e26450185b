"""A whole fleet: its list is read, each database is asked, and what differs is found."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pipestate.errors import ConfigError
from pipestate.fleet.answer import Answer
from pipestate.fleet.ask import FleetQuestion, ask, not_listed
from pipestate.fleet.drift import Drift, Shapes
from pipestate.fleet.survey import survey
from pipestate.fleet.tally import Group, Tally
from pipestate.fleet.tenants import Tenant, Tenants
from pipestate.interrupt import Interrupted
from pipestate.plural import many
from pipestate.progress import Progress, untold

OnAnswer = Callable[[Answer], None]


@dataclass(frozen=True, slots=True)
class Fleet:
    """What became of a fleet. `total` databases were named, `asked` of them answered before the end."""

    total: int
    asked: int
    exit_code: int
    duration_ms: float
    groups: tuple[Group, ...]
    codes: dict[int, int]
    planned: bool = False
    drifts: tuple[Drift, ...] = ()
    repeated: tuple[Tenant, ...] = ()
    warnings: tuple[tuple[str, int], ...] = ()

    @property
    def is_interrupted(self) -> bool:
        return self.asked < self.total

    def refuse_interrupted(self, *, recorded: bool) -> None:
        """Raise Interrupted where Ctrl-C ended it, with what was done until then."""
        if self.is_interrupted:
            kept = "what is shown is recorded" if recorded else "nothing was changed"
            raise Interrupted(
                f"{self.asked:,} of {many(self.total, 'database')} had answered; the rest was cancelled, {kept}"
            )


def ask_fleet(
    question: FleetQuestion, tenants: Tenants, jobs: int, on_answer: OnAnswer, on_progress: Progress = untold
) -> Fleet:
    """Ask every database, `jobs` at a time; tell each answer as it comes, and sum up what differs."""
    refuse_records(question, tenants)
    start, tally, shapes = time.perf_counter(), Tally(), Shapes()
    total = len(tenants.found) + len(tenants.unlisted)

    def take(answer: Answer) -> None:
        tally.add(answer)
        shapes.add(answer)
        on_answer(answer)
        on_progress(len(tally.kept), total)

    for line in tenants.unlisted:
        take(not_listed(line))
    finished = survey(tenants.found, partial(ask, question), jobs, take)
    drifts = shapes.find({tenant.name: tenant for tenant in tenants.found}) if finished else []
    return Fleet(
        total,
        len(tally.kept),
        tally.exit_code if finished else 3,
        round((time.perf_counter() - start) * 1000, 1),
        tuple(tally.groups(drifts)),
        tally.codes(),
        question.calls is not None,
        tuple(drifts),
        tenants.repeated,
        tuple(tally.warnings.most_common()),
    )


def refuse_records(question: FleetQuestion, tenants: Tenants) -> None:
    """Refuse to record schemas of one database: its ledger could not tell them apart."""
    shared: Sequence[Tenant] = [tenant for tenant in tenants.found if tenant.path]
    if question.record and shared:
        raise ConfigError(
            f"{shared[0].source}: --record writes into the ledger of a database, which its schemas share, and "
            "one tenant's record would pass for another's: leave --record out, or name databases"
        )
