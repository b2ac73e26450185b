"""How many rows a batch takes: as many as are done in about 200 ms, fewer where somebody waits for them."""

from dataclasses import dataclass, replace

TARGET_S = 0.2
SHORTEST_S = 0.05
SMALLEST, FIRST, LARGEST = 10, 1_000, 50_000  # beyond, PostgreSQL's plan flips, and batches get slower
GROWTH, SHRINKAGE = 2.0, 0.25


@dataclass(frozen=True, slots=True)
class Pace:
    """The size of the next batch, and how long it may take; with `fixed` the size stays."""

    size: int = FIRST
    target_s: float = TARGET_S
    fixed: bool = False
    largest: int = LARGEST

    def after(self, took_s: float, *, waited_for: bool = False, full: bool = True) -> "Pace":
        """Adapt to a batch that took so long; `full` says that it was of the whole size.

        >>> Pace().after(0.05).size, Pace().after(0.4).size, Pace(50, fixed=True).after(9).size
        (2000, 500, 50)
        >>> Pace().after(0.2, waited_for=True).target_s
        0.1
        """
        if self.fixed:
            return self
        target = max(self.target_s / 2, SHORTEST_S) if waited_for else min(self.target_s * 1.25, TARGET_S)
        if not full and took_s <= target:
            return replace(self, target_s=target)
        factor = min(max(target / max(took_s, 0.001), SHRINKAGE), GROWTH)
        return replace(self, target_s=target, size=min(max(int(self.size * factor), SMALLEST), self.largest))

    def smaller(self) -> "Pace":
        """Take half as many, where a batch could not have its locks.

        >>> Pace().smaller().size
        500
        """
        return self if self.fixed else replace(self, size=max(self.size // 2, SMALLEST))


def fixed_or_adapted(size: int | None, *, largest: int = LARGEST) -> Pace:
    """Return the pace of a size that somebody gave, or one that adapts itself."""
    return Pace(largest=largest) if size is None else Pace(size, fixed=True)
