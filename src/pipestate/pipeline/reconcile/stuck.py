"""Stuck sites: the single definition, equal to the runbook's checks, and the hook for missing jobs.

A site is stuck when its stage is not `completed`, and its last update is older than two hours or unknown.
"""

import importlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    String,
    and_,
    case,
    cast,
    func,
    or_,
    select,
)

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database.connections import choose
from pipestate.pipeline.queues.config import SECTION
from pipestate.pipeline.schema import COMPLETED, STAGES, STEPS, pipeline_claim, sites
from pipestate.pipeline.stages import THRESHOLD_HOURS, UnknownSite, step_of


class Counters(NamedTuple):
    """Job counts of a stage: total, completed and failed."""

    total: int
    completed: int
    failed: int

    @property
    def ended(self) -> bool:
        return self.completed + self.failed >= self.total

    @property
    def in_vain(self) -> bool:
        """Check for a stage with jobs of which none succeeded."""
        return self.total > 0 and self.completed == 0


@dataclass(frozen=True, slots=True)
class StuckSite:
    """A site at the time of reading; a changed `version` reveals a later write."""

    subdomain: str
    stage: str
    version: str | None
    hours: float | None
    claimed: bool
    attempts: int
    counters: Mapping[str, Counters]
    last_error: str | None

    @property
    def step(self) -> tuple[str, ...]:
        return step_of(self.stage)


# Hours since the last update by the server's clock, and the test that it is older than some hours or unknown.
TOUCHED, DAY = sites.c.updated_at, func.julianday(sites.c.updated_at)
AGE_HOURS: dict[str, ColumnElement[Any]] = {
    "postgresql": func.extract("epoch", func.now() - TOUCHED) / 3600.0,
    "sqlite": (func.julianday("now") - DAY) * 24.0,
}
IS_OLDER: dict[str, Callable[[float], ColumnElement[bool]]] = {
    "postgresql": lambda hours: or_(
        TOUCHED.is_(None), func.now() - func.make_interval(0, 0, 0, 0, 0, 0, hours * 3600) > TOUCHED
    ),
    "sqlite": lambda hours: or_(DAY.is_(None), func.julianday("now") - hours / 24 > DAY),
}


def version_of_row() -> ColumnElement[str]:
    """Return the time of the last write as text, which distinguishes versions of a row."""
    return cast(sites.c.updated_at, String)


def find_stuck(
    conn: Connection, hours: float = THRESHOLD_HOURS, subdomain: str | None = None
) -> list[StuckSite]:
    """Read all stuck sites, longest first; or the given site, if it is stuck."""
    query = _stuck_sites(choose(AGE_HOURS, conn), choose(IS_OLDER, conn)(hours))
    if subdomain is not None:
        query = query.where(sites.c.subdomain == subdomain)
        if conn.scalar(select(sites.c.subdomain).where(sites.c.subdomain == subdomain)) is None:
            raise UnknownSite(subdomain)
    return [_site(row) for row in conn.execute(query).mappings()]


COUNTERS = [sites.c[f"{stage}_{what}"] for stage in STAGES for what in ("total", "completed", "failed")]
READ = (sites.c.subdomain, sites.c.current_stage, sites.c.coordinator_enqueued, sites.c.last_error_message)


def _stuck_sites(age: ColumnElement[Any], is_older: ColumnElement[bool]) -> Select[Any]:
    """Select the stuck sites, with the attempts at their step.

    The condition is that of the runbook's checks, so that the index on the stage serves both.
    """
    stage = sites.c.current_stage
    # A claim of an earlier step is ignored.
    claimed_here = or_(*(and_(stage.in_(step), pipeline_claim.c.stage.in_(step)) for step in STEPS))
    return (
        select(
            *READ,
            *COUNTERS,
            age.label("age"),
            version_of_row().label("version"),
            case((claimed_here, pipeline_claim.c.attempts), else_=0).label("attempts"),
        )
        .outerjoin(pipeline_claim, pipeline_claim.c.subdomain == sites.c.subdomain)
        .where(or_(stage < COMPLETED, stage > COMPLETED), is_older)
        .order_by(TOUCHED.is_not(None), age.desc(), sites.c.subdomain)
    )


def _site(row: RowMapping) -> StuckSite:
    counters = {
        stage: Counters(*(row[f"{stage}_{what}"] for what in ("total", "completed", "failed")))
        for stage in STAGES
    }
    return StuckSite(
        row["subdomain"],
        row["current_stage"],
        row["version"],
        None if row["age"] is None else float(row["age"]),
        bool(row["coordinator_enqueued"]),
        row["attempts"],
        counters,
        row["last_error_message"],
    )


# Query the application for unsuccessful jobs of a stage, through the function named in the ini.


# Takes subdomain and stage; returns the keywords of each unsuccessful job, or None if unknown.
Missing = Callable[[str, str], "list[dict[str, Any]] | None"]


class HookFailed(PipestateError):
    """The application's function raised an error or returned an invalid list of keywords."""


def nobody_knows(subdomain: str, stage: str) -> None:
    """Return None for an application without a configured function."""


def load_missing(path: str | None) -> Missing:
    """Import the application's function on its first call; its errors become HookFailed."""
    if path is None:
        return nobody_knows

    def ask(subdomain: str, stage: str) -> list[dict[str, Any]] | None:
        module, _, name = path.rpartition(".")
        try:
            hook = getattr(importlib.import_module(module), name)
        except Exception as error:  # an import may raise any exception
            message = f"[{SECTION}] names missing = {path}, which cannot be imported: {error}"
            raise ConfigError(message) from error
        try:
            answer = hook(subdomain, stage)
            return None if answer is None else [_keywords(kwargs) for kwargs in answer]
        except Exception as error:  # application code may raise any exception
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise HookFailed(f"{path} does not say which {stage} jobs are missing: {reason}") from error

    return ask


def _keywords(kwargs: Any) -> dict[str, Any]:
    """Refuse values that cannot be sent as keywords."""
    found = dict(kwargs)
    if not all(isinstance(name, str) for name in found):
        raise TypeError(f"{found} are no keywords")
    pickle.dumps(found)
    return found
