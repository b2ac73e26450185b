"""What differs between the databases of a fleet: groups of those that are alike, and the rest by name."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from pipestate.fleet.answer import Answer
from pipestate.fleet.drift import Drift
from pipestate.verify.report import Gate


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """What databases have in common that are alike. Not `asked`: nothing applies at their revision."""

    revision: str | None = None
    head: str | None = None
    closed: tuple[str, ...] = ()
    asked: bool = False
    pending: int = 0
    next: str | None = None
    error: str | None = None
    drift: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Databases that are alike; `checks` are those that close their gates, each with how many it closes."""

    state: DatabaseState
    names: tuple[str, ...]
    checks: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of an answer until all are there."""

    name: str
    state: DatabaseState
    exit_code: int
    is_past: bool
    checks: tuple[str, ...]


@dataclass
class Tally:
    """Collects answers, without most of what is in them."""

    kept: list[Kept] = field(default_factory=list)
    warnings: Counter[str] = field(default_factory=Counter)
    _states: dict[DatabaseState, DatabaseState] = field(default_factory=dict)
    _checks: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)

    def add(self, answer: Answer) -> None:
        """Take an answer; what it has in common with others is kept once."""
        state = state_of(answer)
        checks = tuple(dict.fromkeys(check for phase in answer.closed for check in phase.closed_by))
        self.kept.append(
            Kept(
                answer.name,
                self._states.setdefault(state, state),
                answer.exit_code,
                answer.is_past,
                self._checks.setdefault(checks, checks),
            )
        )
        self.warnings.update(answer.warnings)

    @property
    def exit_code(self) -> int:
        """The highest of all. Where nothing was checked because all of it is past counts only if all are so."""
        counting = [each.exit_code for each in self.kept if not (each.is_past and each.exit_code == 2)]
        return max(counting, default=2)

    def codes(self) -> dict[int, int]:
        """How many databases have each exit code."""
        counted = Counter(each.exit_code for each in self.kept)
        return {code: counted[code] for code in (0, 1, 2, 3)}

    def groups(self, drifts: Iterable[Drift] = ()) -> list[Group]:
        """Put together those that are alike, the largest group first."""
        said = {drift.name: drift.sentence for drift in drifts}
        members: dict[DatabaseState, list[Kept]] = {}
        for each in self.kept:
            members.setdefault(replace(each.state, drift=said.get(each.name)), []).append(each)
        groups = [_group(state, found) for state, found in members.items()]
        return sorted(
            groups, key=lambda group: (group.state.error is not None, -len(group.names), group.names)
        )


def state_of(answer: Answer) -> DatabaseState:
    """Say what a database is like: those whose states are equal belong together."""
    if answer.error is not None:
        return DatabaseState(error=_without_name(answer, answer.error))
    return DatabaseState(
        answer.revision,
        answer.head,
        tuple(phase.name for phase in answer.closed),
        any(phase.gate in (Gate.OPEN, Gate.CLOSED) for phase in answer.phases),
        len(answer.pending.revisions) if answer.pending else 0,
        answer.pending.next if answer.pending else None,
    )


def _without_name(answer: Answer, said: str) -> str:
    """Leave out of an error which database it is of: a server that is down is one thing to say, not a thousand."""
    for name in filter(None, (answer.shown_url, f'"{answer.url.database}"')):
        said = said.replace(name, "it")
    return said


def _group(state: DatabaseState, members: Sequence[Kept]) -> Group:
    checks = Counter(check for each in members for check in each.checks)
    return Group(state, tuple(sorted(each.name for each in members)), tuple(checks.most_common()))
