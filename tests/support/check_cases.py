"""Cases: what to run on a healthy database, and which check must turn how.

Each shipped page has its cases in `application/runbooks/`, and `test_cases.py` there runs them all: a check
that no case breaks fails the suite.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import create_engine

from pipestate.runbook.model import Runbook
from pipestate.verify.report import Outcome
from support.servers import Borrowed, Database, Postgres, Sqlite
from support.sql_times import run_timed
from support.verdicts import shipped

Change = tuple[str, ...] | Callable[[Database], None]
ENGINES = ("postgresql", "sqlite")


@dataclass(frozen=True)
class Case:
    """A healthy database, broken in one respect.

    `check` is `phase/id`; it must turn to `outcome`, and no other but those in `also`, which cannot hold
    without it. An engine without a change has no such case. `shows` is what the first row of its evidence
    says, in whole words; None where there is no row to show.
    """

    check: str
    what: str
    postgresql: Change = ()
    sqlite: Change = ()
    also: frozenset[str] = frozenset()
    shows: str | None = ""
    outcome: Outcome = Outcome.FAILED

    @property
    def phase(self) -> str:
        return self.check.partition("/")[0]

    @property
    def turned(self) -> set[str]:
        return {self.check, *self.also}

    def on(self, engine: str) -> Change:
        return self.sqlite if engine == "sqlite" else self.postgresql

    def apply(self, database: Database) -> None:
        change = self.on(database.url.get_backend_name())
        if callable(change):
            change(database)
        else:
            run_timed(database, *change)


def case(
    check: str,
    what: str,
    *statements: str,
    only: str | None = None,
    also: str = "",
    shows: str | None = "",
) -> Case:
    """The same statements on both engines, or on the `only` one; `also` names checks of its phase by their id."""
    phase = check.partition("/")[0]
    others = (other if "/" in other else f"{phase}/{other}" for other in also.split())
    return Case(
        check,
        what,
        postgresql=statements if only in (None, "postgresql") else (),
        sqlite=statements if only in (None, "sqlite") else (),
        also=frozenset(others),
        shows=shows,
    )


@dataclass(frozen=True)
class Page:
    """A shipped runbook: how to build a database on which all of it holds, and every way to break it.

    `later` are phases that need another database. With `whole` a case is judged by all phases that apply,
    not by its own alone. With `counts` some check reads the server's counters, which no rollback sets back.
    """

    name: str
    healthy: Callable[[Database], None]
    cases: Sequence[Case]
    refresh: Callable[[Database], None] = field(default=lambda _: None)
    later: Mapping[str, Callable[[Database], None]] = field(default_factory=dict)
    whole: bool = False
    counts: bool = False

    @property
    def runbook(self) -> Runbook:
        return shipped(self.name)

    @contextmanager
    def copy(self, bed: Postgres | Sqlite, phase: str) -> Iterator[Database]:
        """A copy of the healthy database; what must be recent is made so, for the original may be old."""
        database = self._copy_of(bed, phase)
        self.refresh(database)
        yield database
        bed.drop(database)

    @contextmanager
    def borrow(self, bed: Postgres | Sqlite, phase: str, shared: dict[str, Database]) -> Iterator[Database]:
        """The same for less: on PostgreSQL a transaction that is rolled back, on a copy that cases share."""
        if isinstance(bed, Sqlite) or self.counts:
            with self.copy(bed, phase) as database:
                yield database
            return
        key = self._key(phase)
        if key not in shared:
            shared[key] = self._copy_of(bed, phase)
            shared[key].engine = create_engine(
                shared[key].url
            )  # with a pool: a session that knows its tables
        with shared[key].engine.connect() as connection:
            database = Borrowed(shared[key].url, connection=connection)
            self.refresh(database)
            yield database
            connection.rollback()

    def _copy_of(self, bed: Postgres | Sqlite, phase: str) -> Database:
        return bed.copy_of(self._key(phase), self.later.get(phase, self.healthy))

    def _key(self, phase: str) -> str:
        return f"{self.name}-{phase if phase in self.later else 'healthy'}"
