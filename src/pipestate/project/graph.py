"""Graph of revisions, and the position of a database in it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from pipestate.core.errors import ConfigError

# Key in the `info` of a connection: the version table found on it. Its owner is the migrating role.
FOUND = "pipestate_version_table"


class Place(StrEnum):
    """Place of a range of revisions relative to the database."""

    NOT_STARTED = "not started"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Position:
    """All revisions of a project with their files, and the applied revisions of a database."""

    known: frozenset[str]
    applied: frozenset[str]
    current: str | None
    head: str | None
    paths: Mapping[str, Path] = field(default_factory=dict, compare=False, repr=False)
    version_table: str | None = field(default=None, compare=False)  # as written in SQL
    migrations: "Migrations | None" = field(default=None, compare=False, repr=False)

    def place(self, from_: str | None, until: str | None) -> Place | None:
        """Return NOT_STARTED or FINISHED for a range of revisions, or None if the database is inside it."""
        if until is not None and until in self.applied:
            return Place.FINISHED
        if from_ is not None and from_ not in self.applied:
            return Place.NOT_STARTED
        return None

    def above(self, revision: str) -> tuple[str, ...]:
        """List the applied revisions that a downgrade below this one undoes, too."""
        return tuple(
            each.id
            for each in self.migrations or ()
            if each.id in self.applied
            and each.id != revision
            and self.migrations is not None
            and revision in self.migrations.ancestors([each.id])
        )


# Migrations: revisions in sequence, with branches, merges and dependencies.
#
# Importing Alembic's `RevisionMap` takes 80 ms, a quarter of `verify`, and its messages name no file.


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision as declared in its file. `gates` are the phases that its upgrade evaluates."""

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
        """Return the revisions that must be applied before this one."""
        return (*self.down, *self.depends_on)

    @property
    def source(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Migrations:
    """All revisions of a project, each after the revisions that it needs, as ordered by `make_migrations`."""

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
        """Return the revisions without a successor, by name; as in Alembic, `depends_on` makes none."""
        followed = {down for revision in self.revisions for down in revision.down}
        return tuple(sorted(self.by_id.keys() - followed))

    @property
    def labels(self) -> dict[str, str]:
        """Map each branch label to its revision."""
        return {label: revision.id for revision in self.revisions for label in revision.branch_labels}

    def ancestors(self, revisions: Iterable[str], *, on_branch: bool = False) -> frozenset[str]:
        """Collect these revisions and all their ancestors; with `on_branch`, ignore `depends_on`."""
        found: set[str] = set()
        left = list(revisions)
        while left:
            revision = left.pop()
            if revision not in found:
                found.add(revision)
                left.extend(self.by_id[revision].down if on_branch else self.by_id[revision].needs)
        return frozenset(found)

    def heads_above(self, revision: str) -> tuple[str, ...]:
        """Return the heads of the branch that this revision begins, without dependents on other branches."""
        return tuple(head for head in self.heads if revision in self.ancestors([head], on_branch=True))

    def position(self, stored: Iterable[str]) -> Position:
        """Return the position of a database with these stored revisions; all must belong to this project."""
        current = sorted(stored)
        return Position(
            frozenset(self.by_id),
            self.ancestors(current),
            " ".join(current) or None,
            " ".join(self.heads) or None,
            {revision.id: revision.path for revision in self.revisions},
            migrations=self,
        )


def make_migrations(revisions: Sequence[Revision]) -> Migrations:
    """Check the links between the revisions, and sort each after those that it needs."""
    known: dict[str, Revision] = {}
    labels: dict[str, str] = {}
    for revision in revisions:
        if revision.id in known:
            other = known[revision.id].source
            message = (
                f"{revision.source}: revision {revision.id} is also in {other}: give one of them another id"
            )
            raise ConfigError(message)
        known[revision.id] = revision
        for label in revision.branch_labels:
            if label in labels:
                on = f"the branch label {label} is also on revision {labels[label]}"
                raise ConfigError(f"{revision.source}: {on}: use another one")
            labels[label] = revision.id
    resolved = {}
    for revision in revisions:
        needs = tuple(labels.get(name, name) for name in revision.depends_on)
        if missing := [down for down in revision.down if down not in known]:
            raise ConfigError(
                f"{revision.source}: down_revision is {missing[0]}, which no file of this project has: "
                "bring that file back, or correct the id"
            )
        if missing := [name for name in needs if name not in known]:
            raise ConfigError(
                f"{revision.source}: depends_on names {missing[0]}, which is neither a revision nor a branch "
                "label of this project"
            )
        resolved[revision.id] = replace(revision, depends_on=needs)
    return Migrations(_in_order(resolved))


def find_targets(migrations: Migrations, name: str) -> tuple[str, ...]:
    """Find the target of an upgrade: `head`, `heads`, a revision, a prefix of its id, or a branch.

    Raise ConfigError unless the name matches exactly one target.
    """
    if name == "heads":
        return migrations.heads
    if name == "head":
        return _one_head(migrations.heads, "head")
    branch, at, _ = name.partition("@")
    if branch in migrations.labels and name in (branch, f"{branch}@head"):
        above = migrations.heads_above(migrations.labels[branch])
        return _one_head(above, name) if at else above
    return (_revision(migrations, name),)


def _one_head(heads: tuple[str, ...], name: str) -> tuple[str, ...]:
    if len(heads) > 1:
        raise ConfigError(f"{name}: there are several ({', '.join(heads)}); name one of them, or write heads")
    return heads


def _revision(migrations: Migrations, name: str) -> str:
    if name in migrations:
        return name
    found = [revision.id for revision in migrations if name and revision.id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(
            f"{name}: several revisions begin with this ({', '.join(found)}); write more of the id"
        )
    raise ConfigError(
        f"{name}: no revision and no branch of this project; write head, heads, a branch, or one of the ids "
        "that `pipestate plan` shows"
    )


def next_batch(
    migrations: Migrations,
    applied: Collection[str],
    wanted: Collection[str],
    gated: Collection[str],
    closed: Collection[str],
) -> list[Revision]:
    """Choose the next revisions to run: all without a gate in front, else the first one with a gate."""
    needed = migrations.ancestors(wanted)
    behind = set(closed)
    free: list[Revision] = []
    waiting: list[Revision] = []
    for revision in migrations:
        if revision.id in applied or revision.id not in needed:
            continue
        if revision.id in behind or not behind.isdisjoint(revision.needs):
            behind.add(revision.id)
        elif revision.id in gated:
            behind.add(revision.id)
            waiting.append(revision)
        else:
            free.append(revision)
    return free or waiting[:1]


def ends(migrations: Migrations, batch: Collection[Revision]) -> list[str]:
    """List the last revisions of a batch: upgrading to each of them applies the whole batch."""
    ids = {revision.id for revision in batch}
    below = {each for revision in batch for each in migrations.ancestors(revision.needs)}
    return [revision.id for revision in migrations if revision.id in ids - below]


def _in_order(known: Mapping[str, Revision]) -> tuple[Revision, ...]:
    """Sort each revision after those that it needs; branches stay together, unlike in a topological sort."""
    try:
        TopologicalSorter({each.id: each.needs for each in known.values()}).prepare()
    except CycleError as error:
        way = error.args[1]
        raise ConfigError(
            f"{known[way[0]].source}: revision {way[0]} comes before itself ({' → '.join(way)}): "
            "correct down_revision or depends_on"
        ) from None
    done: dict[str, Revision] = {}
    left = [*known][::-1]
    while left:
        missing = [need for need in known[left[-1]].needs if need not in done]
        left += reversed(missing)
        if not missing:
            here = left.pop()
            done[here] = known[here]
    return tuple(done.values())
