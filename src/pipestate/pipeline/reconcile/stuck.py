"""Stuck sites: the one definition, the same as in the runbook's checks.

A site is stuck when it is in a stage that is not `completed` and nothing has touched it for two hours,
or nobody knows when it was touched last.
"""

from collections.abc import Mapping
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
    or_,
    select,
)

from pipestate.pipeline.reconcile.engine import ReconcileEngine, engine_of
from pipestate.pipeline.stages import COMPLETED, STAGES, STEPS, UnknownSite, step_of
from pipestate.pipeline.threshold import THRESHOLD_HOURS
from pipestate.schema import pipeline_claim, sites


class Counters(NamedTuple):
    """The jobs of a stage: how many there are, and how they ended."""

    total: int
    completed: int
    failed: int

    @property
    def ended(self) -> bool:
        return self.completed + self.failed >= self.total

    @property
    def in_vain(self) -> bool:
        """Were there jobs, and none of them has succeeded?"""
        return self.total > 0 and self.completed == 0


@dataclass(frozen=True, slots=True)
class StuckSite:
    """A site as it was read; `version` tells whether anybody has written to it since."""

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


def is_stuck(engine: ReconcileEngine, hours: float) -> ColumnElement[bool]:
    """Say what is stuck as the runbook's checks say it, so that the index on the stage serves both."""
    stage = sites.c.current_stage
    in_flight = or_(stage < COMPLETED, stage > COMPLETED)
    return and_(in_flight, engine.is_older(sites.c.updated_at, hours))


def version_of_row() -> ColumnElement[str]:
    """The time of the last write as text, which tells two versions of a row apart."""
    return cast(sites.c.updated_at, String)


def find_stuck(
    conn: Connection, hours: float = THRESHOLD_HOURS, subdomain: str | None = None
) -> list[StuckSite]:
    """Read all stuck sites, longest first; or that one, if it is stuck."""
    query = _stuck_sites(engine_of(conn), hours)
    if subdomain is not None:
        query = query.where(sites.c.subdomain == subdomain)
        if conn.scalar(select(sites.c.subdomain).where(sites.c.subdomain == subdomain)) is None:
            raise UnknownSite(subdomain)
    return [_site(row) for row in conn.execute(query).mappings()]


COUNTERS = [sites.c[f"{stage}_{what}"] for stage in STAGES for what in ("total", "completed", "failed")]
READ = (sites.c.subdomain, sites.c.current_stage, sites.c.coordinator_enqueued, sites.c.last_error_message)


def _stuck_sites(engine: ReconcileEngine, hours: float) -> Select[Any]:
    """Select the stuck sites, with the attempts at their step."""
    age = engine.age_hours(sites.c.updated_at)
    return (
        select(
            *READ,
            *COUNTERS,
            age.label("age"),
            version_of_row().label("version"),
            _attempts_in_stage().label("attempts"),
        )
        .outerjoin(pipeline_claim, pipeline_claim.c.subdomain == sites.c.subdomain)
        .where(is_stuck(engine, hours))
        .order_by(sites.c.updated_at.is_not(None), age.desc(), sites.c.subdomain)
    )


def _attempts_in_stage() -> ColumnElement[int]:
    """Count the attempts of the present step: a claim of an earlier one says nothing about it."""
    here = or_(*(and_(sites.c.current_stage.in_(step), pipeline_claim.c.stage.in_(step)) for step in STEPS))
    return case((here, pipeline_claim.c.attempts), else_=0)


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
