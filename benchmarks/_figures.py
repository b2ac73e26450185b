"""What a benchmark found: figures by size, and what is wanted of them."""

from collections.abc import Sequence
from dataclasses import dataclass

MOST_OF_QUERIES, MOST_GROWTH, MOST_MEGABYTES = 0.5, 1.5, 20.0
MOST_WITH_JOBS = 1.05  # never slower, but for what the machine varies by


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians of one size: seconds of whole processes, megabytes, and milliseconds by check."""

    rows: int
    verify_s: float
    with_jobs_s: float
    queries_s: float
    megabytes: float
    checks_ms: dict[str, float]


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure, and the most that it may be."""

    name: str
    value: float
    most: float

    @property
    def ok(self) -> bool:
        return self.value <= self.most

    def __str__(self) -> str:
        return f"{self.name:<74}{self.value:>8.2f} (at most {self.most:g}) {'ok' if self.ok else 'MISSED'}"


def goals(figures: Sequence[Figures]) -> list[Goal]:
    """What is wanted of all sizes together; the first is the smallest."""
    first, last = figures[0], figures[-1]
    beside = last.verify_s / last.queries_s
    memory = max(each.megabytes for each in figures) - first.megabytes
    jobs = max(each.with_jobs_s / each.verify_s for each in figures)
    sizes = f"{first.rows:,} to {last.rows:,} rows"
    return [
        Goal(f"{last.rows:,} rows, beside the source documents' queries", beside, MOST_OF_QUERIES),
        Goal(f"{last.rows:,} rows, beside {first.rows:,}", last.verify_s / first.verify_s, MOST_GROWTH),
        Goal(f"{sizes}, memory above that of the smallest, megabytes", memory, MOST_MEGABYTES),
        Goal(f"{sizes}, --jobs 2 beside --jobs 1, at worst", jobs, MOST_WITH_JOBS),
    ]


def show(figures: Sequence[Figures]) -> None:
    """Print them by size and by check, the slowest first."""
    print(f"\n{'rows':>12}{'verify':>11}{'--jobs 2':>11}{'queries':>11}{'memory':>10}")
    for each in figures:
        seconds = "".join(f"{value:>9.2f} s" for value in (each.verify_s, each.with_jobs_s, each.queries_s))
        print(f"{each.rows:>12,}{seconds}{each.megabytes:>7.0f} MB")
    heads = "".join(f"{each.rows:>12,}" for each in figures)
    print(f"\n{'milliseconds by check':<62}{heads}")
    slowest = figures[-1].checks_ms
    for name in sorted(slowest, key=lambda check: -slowest[check]):
        print(f"{name:<62}{''.join(f'{each.checks_ms[name]:>12.1f}' for each in figures)}")
