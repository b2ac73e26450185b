"""Where a database stands in its chain."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path


class Place(StrEnum):
    """Where something that applies from one revision until another lies, seen from the database."""

    AHEAD = "ahead"
    PAST = "past"


@dataclass(frozen=True, slots=True)
class Position:
    """All revisions of a chain with their files, and those that a database has."""

    known: frozenset[str]
    applied: frozenset[str]
    current: str | None
    head: str | None
    paths: Mapping[str, Path] = field(default_factory=dict, compare=False, repr=False)
    version_table: str | None = field(default=None, compare=False)  # as SQL writes it

    def place(self, from_: str | None, until: str | None) -> Place | None:
        """Say AHEAD or PAST of a range of revisions, None where the database is inside it."""
        if until is not None and until in self.applied:
            return Place.PAST
        if from_ is not None and from_ not in self.applied:
            return Place.AHEAD
        return None
