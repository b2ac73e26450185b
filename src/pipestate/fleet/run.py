"""Run a fleet command and tally its answers: groups of equal databases, and the rest by name."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipestate.core.errors import ConfigError
from pipestate.core.progress import Progress, no_progress
from pipestate.core.text import many
from pipestate.database.interrupt import Interrupted
from pipestate.fleet.evaluate import Answer, FleetRequest, UpgradeOutcome, evaluate, not_listed
from pipestate.fleet.list import Tenant, Tenants, survey
from pipestate.verify.report import Gate


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """The state that equal databases share. If `evaluated` is False, no check applies at their revision."""

    revision: str | None = None
    head: str | None = None
    closed: tuple[str, ...] = ()
    evaluated: bool = False
    pending: int = 0
    next: str | None = None
    error: str | None = None
    drift: str | None = None
    outcome: UpgradeOutcome | None = None
    obstacles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Databases with equal state; `checks` pairs each failing check with the number of databases that it closes."""

    state: DatabaseState
    names: tuple[str, ...]
    checks: tuple[tuple[str, int], ...] = ()


def state_of(answer: Answer) -> DatabaseState:
    """Return the state of a database; databases with equal states form a group."""
    done = answer.upgrade
    if done is not None and (answer.error is None or answer.revision is not None):
        error = None if answer.error is None else _without_name(answer, answer.error)
        gates = tuple(dict.fromkeys(gate for _, gate in done.waiting))
        left = len(done.pending) - len(done.applied)
        return DatabaseState(
            answer.revision, answer.head, gates, pending=left, error=error, outcome=done.outcome
        )
    if answer.error is not None:
        return DatabaseState(error=_without_name(answer, answer.error))
    return DatabaseState(
        answer.revision,
        answer.head,
        tuple(phase.name for phase in answer.closed),
        any(phase.gate in (Gate.OPEN, Gate.CLOSED) for phase in answer.phases),
        len(answer.pending or ()),
        answer.next,
        drift=answer.drift.sentence if answer.drift else None,
        obstacles=answer.obstacles,
    )


def _without_name(answer: Answer, said: str) -> str:
    """Remove the database's name from an error, so that one server's failure forms one group."""
    for name in filter(None, (answer.shown_url, f'"{answer.url.database}"', f'"{answer.schema}"')):
        said = said.replace(name, "it")
    return said


def tally(
    answers: Sequence[Answer],
    total: int,
    duration_ms: float,
    exit_code: int | None = None,
    warnings: Sequence[str] = (),
    **more: Any,
) -> "Fleet":
    """Build the result of a command; `more` are the fields that only some commands have."""
    codes = Counter(answer.exit_code for answer in answers)
    said = Counter(each for answer in answers for each in answer.warnings) + Counter(warnings)
    return Fleet(
        total,
        len(answers),
        worst_code(answers) if exit_code is None else exit_code,
        round(duration_ms, 1),
        tuple(group(answers)),
        {code: codes[code] for code in (0, 1, 2, 3)},
        warnings=tuple(said.most_common()),
        **more,
    )


def worst_code(answers: Sequence[Answer]) -> int:
    """Return the highest exit code. The code for "all phases finished" counts only if every database has it."""
    return max(
        (each.exit_code for each in answers if not (each.is_finished and each.exit_code == 2)), default=2
    )


def group(answers: Sequence[Answer]) -> list[Group]:
    """Group equal databases, the largest group first."""
    members: dict[DatabaseState, list[Answer]] = {}
    for answer in answers:
        members.setdefault(state_of(answer), []).append(answer)
    groups = []
    for state, found in members.items():
        checks = Counter(
            check
            for answer in found
            for check in dict.fromkeys(check for phase in answer.closed for check in phase.closed_by)
        )
        groups.append(
            Group(state, tuple(sorted(answer.name for answer in found)), tuple(checks.most_common()))
        )
    return sorted(groups, key=lambda group: (group.state.error is not None, -len(group.names), group.names))


OnAnswer = Callable[[Answer], None]


@dataclass(frozen=True, slots=True)
class Wave:
    """A wave of an upgrade: its number of databases, and the count of each outcome."""

    number: int
    databases: int
    outcomes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The result of a fleet command. `total` databases were listed; `evaluated` of them answered or failed.

    `drifted` are those with a schema that differs from its record. An upgrade has `waves`; `left` databases belong
    to waves that did not start, and `stopped` is the reason.
    """

    total: int
    evaluated: int
    exit_code: int
    duration_ms: float
    groups: tuple[Group, ...]
    codes: dict[int, int]
    planned: bool = False
    drifted: tuple[str, ...] = ()
    repeated: tuple[Tenant, ...] = ()
    warnings: tuple[tuple[str, int], ...] = ()
    left: int = 0
    waves: tuple[Wave, ...] = ()
    stopped: str | None = None

    @property
    def is_interrupted(self) -> bool:
        return self.evaluated + self.left < self.total

    def refuse_interrupted(self, *, recorded: bool) -> None:
        """Raise Interrupted after Ctrl-C, with the progress so far."""
        if self.is_interrupted and self.waves:
            raise Interrupted(
                f"{self.evaluated:,} of {many(self.total, 'database')} are done; running upgrades were stopped and "
                "their uncommitted changes rolled back: run the same command again"
            )
        if self.is_interrupted:
            kept = "the databases shown here are recorded" if recorded else "nothing was changed"
            raise Interrupted(
                f"{self.evaluated:,} of {many(self.total, 'database')} had answered; the rest was cancelled, {kept}"
            )


def evaluate_fleet(
    request: FleetRequest,
    tenants: Tenants,
    jobs: int,
    on_answer: OnAnswer,
    on_progress: Progress = no_progress,
) -> Fleet:
    """Evaluate every database, `jobs` at a time; report each answer as it arrives, then tally them."""
    refuse_records(request, tenants)
    start, answers = time.perf_counter(), list[Answer]()
    total = len(tenants.found) + len(tenants.unlisted)

    def take(answer: Answer) -> None:
        answers.append(answer)
        on_answer(answer)
        on_progress(len(answers), total)

    for line in tenants.unlisted:
        take(not_listed(line))
    finished = survey(tenants.found, partial(evaluate, request), jobs, take)
    return tally(
        answers,
        total,
        (time.perf_counter() - start) * 1000,
        None if finished else 3,
        planned=request.calls is not None,
        drifted=tuple(sorted(each.name for each in answers if each.drift and each.drift.sentence)),
        repeated=tenants.repeated,
    )


def refuse_records(request: FleetRequest, tenants: Tenants) -> None:
    """Refuse `--record` for several schemas of one database: its ledger could not distinguish them."""
    shared: Sequence[Tenant] = [tenant for tenant in tenants.found if tenant.path]
    if request.record and shared:
        raise ConfigError(
            f"{shared[0].source}: --record cannot be used with schemas: they share one ledger, which would mix the "
            "records of tenants. Leave --record out, or list databases"
        )
