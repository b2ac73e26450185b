"""Reconciliation: find stuck sites, plan, apply exactly the plan, each site in its own transaction."""

import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    delete,
    func,
    insert,
    inspect,
    literal_column,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError

from pipestate import db
from pipestate.errors import ConfigError
from pipestate.pipeline import reconciliations
from pipestate.pipeline.alone import alone
from pipestate.pipeline.claims import forget_claim, record_claim
from pipestate.pipeline.dispatch import HookFailed, alive, send
from pipestate.pipeline.recovery import Action, Step, World, plan_site
from pipestate.pipeline.statements import SQLITE
from pipestate.pipeline.storage import Storage, StorageError
from pipestate.pipeline.stuck import THRESHOLD_HOURS, StuckSite, find_stuck, version_of_row
from pipestate.pipeline.truncate import error_text
from pipestate.pipeline.wiring import Wiring
from pipestate.progress import Progress, untold
from pipestate.schema import pipeline_claim, pipeline_job, sites

if TYPE_CHECKING:
    from redis import Redis

MAX_ATTEMPTS = 5
LOCK_TIMEOUT = "2s"


class Result(StrEnum):
    RECOVERED = "recovered"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step."""

    step: Step
    result: Result
    reason: str


@dataclass(frozen=True, slots=True)
class Reconciler:
    """Where it works, and what it takes for stuck. With `site` it is a person's doing: no cap on attempts."""

    url: URL
    redis: "Redis"
    wiring: Wiring
    storage: Storage | None
    hours: float = THRESHOLD_HOURS
    max_attempts: int = MAX_ATTEMPTS
    site: str | None = None

    def plan(self) -> list[Step]:
        """What would be done; reads only, in the database and in Redis alike."""
        calls = alive(self.redis, self.wiring)
        by_hand = self.site is not None
        cap = sys.maxsize if by_hand else self.max_attempts
        world = World(self.wiring, calls, self.storage, cap, by_hand)
        with db.reader(self.url) as conn:
            found = find(conn, self.hours, self.site)
        # Files and hooks may take long: no transaction waits for them.
        return [_plan(site, world) for site in found]

    def preview(self) -> list[Outcome]:
        """The plan as it would turn out."""
        return [
            Outcome(step, Result.RECOVERED if step.recovers else Result.SKIPPED, step.reason)
            for step in self.plan()
        ]

    def run(self, *, revision: str | None, on_progress: Progress = untold) -> list[Outcome] | None:
        """Plan and apply; None when another reconciler is at work."""
        engine = db.engine_for(self.url)
        with db.reachable(self.url), alone(engine) as free:
            if not free:
                return None
            steps = self.plan()
            if self.site and not steps:
                return []  # somebody has looked, and intervened in nothing
            return apply(
                engine,
                self.redis,
                steps,
                manual=self.site is not None,
                revision=revision,
                on_progress=on_progress,
            )


def find(conn: Connection, hours: float, site: str | None) -> list[StuckSite]:
    """The stuck sites, or that one if it is stuck."""
    if not inspect(conn).has_table(pipeline_claim.name):
        raise ConfigError("this database has no counters yet: run alembic upgrade 0005 first")
    return find_stuck(conn, hours, site)


def _plan(site: StuckSite, world: World) -> Step:
    try:
        return plan_site(site, world)
    except (StorageError, HookFailed) as error:
        return Step(site, Action.PERSON, str(error))


def apply(
    engine: Engine,
    redis: "Redis",
    steps: list[Step],
    *,
    manual: bool,
    revision: str | None,
    on_progress: Progress = untold,
) -> list[Outcome]:
    """Do what was planned, and write it into the ledger; a run that breaks off stays unfinished there."""
    outcomes: list[Outcome] = []
    with engine.connect() as conn:
        with conn.begin():
            run = reconciliations.begin_reconciliation(conn, manual=manual, revision=revision)
        try:
            for step in steps:
                outcomes.append(_apply(conn, redis, step, manual=manual))
                on_progress(len(outcomes), len(steps))
        except Exception as error:
            _close(conn, run, outcomes, broke_off=str(error))
            raise
        _close(conn, run, outcomes, broke_off=None)
    return outcomes


def _apply(conn: Connection, redis: "Redis", step: Step, *, manual: bool) -> Outcome:
    """The calls are sent inside the transaction: if Redis refuses them, nothing is written either.

    The other way round, a kill between the two leaves calls in the queue that the database does not know
    of: the next run finds them alive, and whoever they move finds the site as it was.
    """
    if not step.recovers:
        return Outcome(step, Result.SKIPPED, step.reason)
    try:
        with conn.begin():
            _prepare(conn)
            if not _take(conn, step, manual=manual):
                return Outcome(step, Result.SKIPPED, "it has moved on meanwhile")
            send(redis, step.parcels)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        return Outcome(step, Result.FAILED, " ".join(str(error.orig).split()))
    return Outcome(step, Result.RECOVERED, step.reason)


def _prepare(conn: Connection) -> None:
    """The reader's settings, or the version of a row would be another text in another time zone."""
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(f"{db.SETTINGS}; SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")


def _take(conn: Connection, step: Step, *, manual: bool) -> bool:
    """Write the plan down, if the site is still the one that was planned for."""
    site = step.site
    values: dict[str, Any] = {
        "updated_at": _now(conn),
        "coordinator_enqueued": step.action is Action.COORDINATOR,
        **{
            f"{stage}_{what}": getattr(counters, what)
            for stage, counters in step.counters.items()
            for what in ("total", "completed", "failed")
        },
    }
    same = (
        sites.c.subdomain == site.subdomain,
        sites.c.current_stage == site.stage,
        sites.c.coordinator_enqueued.is_(site.claimed),
        version_of_row().is_not_distinct_from(site.version),
    )
    if conn.execute(update(sites).where(*same).values(values)).rowcount == 0:
        return False
    _set_keys(conn, step)
    if manual:
        forget_claim(conn, site.subdomain)
    if step.action is Action.COORDINATOR or not site.claimed:  # else the jobs' own claim has counted that try
        record_claim(conn, site.subdomain, site.stage)
    return True


def _set_keys(conn: Connection, step: Step) -> None:
    """What is sent again will count; what has succeeded will not, should its job still come to its end."""
    site, keys = step.site.subdomain, pipeline_job.c
    here = (keys.subdomain == site, keys.stage.in_(step.counters))
    if step.action is Action.JOBS:
        conn.execute(delete(pipeline_job).where(*here))
    known = set(conn.scalars(select(keys.job_key).where(*here)))
    rows = [
        {"subdomain": site, "stage": stage, "job_key": key}
        for stage in step.counters
        for key in step.succeeded - known
    ]
    if rows:
        conn.execute(insert(pipeline_job), rows)


def _now(conn: Connection) -> ColumnElement[Any]:
    return literal_column(SQLITE.now) if conn.dialect.name == "sqlite" else func.clock_timestamp()


def _close(conn: Connection, run: int, outcomes: list[Outcome], *, broke_off: str | None) -> None:
    details = [
        {
            "subdomain": outcome.step.site.subdomain,
            "stage": outcome.step.site.stage,
            "action": str(outcome.step.action),
            "result": str(outcome.result),
            "reason": error_text(outcome.reason),
        }
        for outcome in outcomes
    ]
    counts = {str(result): sum(outcome.result is result for outcome in outcomes) for result in Result}
    with conn.begin():
        reconciliations.end_reconciliation(conn, run, counts, details, broke_off=broke_off)
