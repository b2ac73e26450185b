"""A chain: revisions that follow one another, with branches, merges and dependencies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipestate.chain.position import Position
from pipestate.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision as its file says it. `gates` are the phases that the file asks on the way up."""

    id: str
    down: tuple[str, ...]
    depends_on: tuple[str, ...]
    branch_labels: tuple[str, ...]
    title: str
    path: Path
    line: int
    gates: tuple[str, ...] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """The revisions that must be applied before this one."""
        return (*self.down, *self.depends_on)

    @property
    def source(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Chain:
    """All revisions of a project, each after those that it needs: `make_chain` puts them into this order."""

    revisions: tuple[Revision, ...] = ()
    by_id: Mapping[str, Revision] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_id", {revision.id: revision for revision in self.revisions})

    def __iter__(self) -> Iterator[Revision]:
        return iter(self.revisions)

    def __contains__(self, revision: object) -> bool:
        return revision in self.by_id

    @property
    def heads(self) -> tuple[str, ...]:
        """The revisions that no other follows, by name. One that others only depend on is a head, as in Alembic."""
        followed = {down for revision in self.revisions for down in revision.down}
        return tuple(sorted(self.by_id.keys() - followed))

    @property
    def labels(self) -> dict[str, str]:
        """The branch labels, with the revision that bears each."""
        return {label: revision.id for revision in self.revisions for label in revision.branch_labels}

    def ancestors(self, revisions: Iterable[str]) -> frozenset[str]:
        """Collect these revisions and all that they need, directly or not."""
        found: set[str] = set()
        left = list(revisions)
        while left:
            revision = left.pop()
            if revision not in found:
                found.add(revision)
                left.extend(self.by_id[revision].needs)
        return frozenset(found)

    def heads_above(self, revision: str) -> tuple[str, ...]:
        """The heads that need this revision."""
        return tuple(head for head in self.heads if revision in self.ancestors([head]))

    def position(self, stored: Iterable[str]) -> Position:
        """Say where a database stands whose version table holds these revisions; all must be of this chain."""
        current = sorted(stored)
        return Position(
            frozenset(self.by_id),
            self.ancestors(current),
            " ".join(current) or None,
            " ".join(self.heads) or None,
            {revision.id: revision.path for revision in self.revisions},
        )


def make_chain(revisions: Sequence[Revision]) -> Chain:
    """Check that the revisions fit together, and put each after those that it needs."""
    known: dict[str, Revision] = {}
    for revision in revisions:
        if revision.id in known:
            other = known[revision.id]
            raise ConfigError(
                f"{revision.source}: revision {revision.id} is also in {other.source}: give one of them another id"
            )
        known[revision.id] = revision
    names = {name: name for name in known} | _labels(revisions)
    resolved = {
        revision.id: replace(
            revision, depends_on=tuple(_dependency(revision, name, names) for name in revision.depends_on)
        )
        for revision in revisions
    }
    for revision in revisions:
        for down in revision.down:
            if down not in known:
                raise ConfigError(
                    f"{revision.source}: down_revision is {down}, which no file of this chain has: "
                    "bring that file back, or correct the id"
                )
    return Chain(tuple(_in_order(resolved)))


def _labels(revisions: Sequence[Revision]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for revision in revisions:
        for label in revision.branch_labels:
            if label in labels:
                raise ConfigError(
                    f"{revision.source}: the branch label {label} is also on revision {labels[label]}: use another one"
                )
            labels[label] = revision.id
    return labels


def _dependency(revision: Revision, name: str, names: Mapping[str, str]) -> str:
    if name not in names:
        raise ConfigError(
            f"{revision.source}: depends_on names {name}, which is neither a revision nor a branch label of this chain"
        )
    return names[name]


def _in_order(known: Mapping[str, Revision]) -> Iterator[Revision]:
    """Walk down from each revision, and yield on the way back; branches stay together."""
    done: set[str] = set()
    for start in known:
        way = [(start, iter(known[start].needs))] if start not in done else []
        entered = {start}
        while way:
            here, needs = way[-1]
            following = next((need for need in needs if need not in done), None)
            if following is None:
                way.pop()
                done.add(here)
                entered.discard(here)
                yield known[here]
            elif following in entered:
                raise _cycle(known[following], [name for name, _ in way])
            else:
                entered.add(following)
                way.append((following, iter(known[following].needs)))


def _cycle(turn: Revision, way: list[str]) -> ConfigError:
    cycle = " → ".join([turn.id, *reversed(way[way.index(turn.id) :])])
    return ConfigError(
        f"{turn.source}: revision {turn.id} comes before itself ({cycle}): "
        "correct down_revision or depends_on"
    )
