"""Ids of a page's headings, as those who link to them expect: GitHub's rule, with a prefix for each runbook."""

import re
from collections.abc import Sequence

_DROPPED = re.compile(r"[^\w\- ]")


def slug(heading: str) -> str:
    """Return what a link to a heading says after its `#`.

    >>> slug("In an emergency!"), slug("Phase: `dual-write`")
    ('in-an-emergency', 'phase-dual-write')
    """
    return _DROPPED.sub("", heading.strip().lower()).replace(" ", "-")


class Anchors:
    """The headings of one page: their ids in order, and where a link to one of them leads."""

    def __init__(self, prefix: str, headings: Sequence[str]) -> None:
        self._prefix = prefix
        self._slugs: dict[str, str] = {}
        self.ids = tuple(self._add(slug(heading)) for heading in headings)

    def find(self, target: str) -> str | None:
        """Return the id that a link's target means, or None where the page has no such heading."""
        return self._slugs.get(target.lower())

    def _add(self, wanted: str) -> str:
        free, number = wanted, 0
        while free in self._slugs:
            number += 1
            free = f"{wanted}-{number}"
        self._slugs[free] = f"{self._prefix}.{free}"
        return self._slugs[free]
