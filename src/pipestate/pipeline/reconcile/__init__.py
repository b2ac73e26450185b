"""Reconciliation: recover stuck sites.

1. `plan` finds the stuck sites and decides about each (decide.py). It only reads; a dry run ends here.
2. `apply` carries out exactly that plan, each site in its own transaction (write.py), and records
   the run. A site that changed after the plan is skipped.
3. `run` does both under the reconcile lock, so that one reconciliation works at a time.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import URL, Connection, Engine, inspect

from pipestate.core.errors import ConfigError
from pipestate.core.progress import Progress, no_progress
from pipestate.database import connections as db
from pipestate.pipeline.planning import Plan, Result, SubjectOutcome, count
from pipestate.pipeline.queues.config import QueueConfig
from pipestate.pipeline.queues.port import Queues
from pipestate.pipeline.reconcile import write as reconciliations
from pipestate.pipeline.reconcile.decide import MAX_ATTEMPTS, Action, Facts, Recovery, decide, needs_person
from pipestate.pipeline.reconcile.lock import reconcile_lock
from pipestate.pipeline.reconcile.stuck import HookFailed, StuckSite, find_stuck, load_missing
from pipestate.pipeline.reconcile.write import write_recovery
from pipestate.pipeline.schema.sites import pipeline_claim
from pipestate.pipeline.stages import THRESHOLD_HOURS, error_text
from pipestate.pipeline.storage import Storage, StorageError

__all__ = ["OUTCOMES", "Action", "Recovery", "Rules", "apply", "plan", "run"]

OUTCOMES = (SubjectOutcome.RECOVERED, SubjectOutcome.SKIPPED, SubjectOutcome.FAILED)


@dataclass(frozen=True, slots=True)
class Rules:
    """Definition of a stuck site, and recovery options. `site` is a manual request with unlimited attempts."""

    config: QueueConfig = field(default_factory=QueueConfig)
    storage: Storage | None = None
    hours: float = THRESHOLD_HOURS
    max_attempts: int = MAX_ATTEMPTS
    site: str | None = None

    @property
    def manual(self) -> bool:
        return self.site is not None


def plan(url: URL, queues: Queues, rules: Rules) -> Plan[Recovery]:
    """Decide about every stuck site; reads only, in both the database and the queue."""
    facts = Facts(
        rules.config,
        queues.alive(rules.config.queues()),
        rules.storage.documents if rules.storage else None,
        load_missing(rules.config.missing),
        sys.maxsize if rules.manual else rules.max_attempts,
        rules.manual,
    )
    with db.reader(url) as conn:
        found = find(conn, rules.hours, rules.site)
    # Files and hooks may be slow, so they run outside any transaction.
    return Plan([_decide(site, facts) for site in found])


def apply(
    url: URL,
    queues: Queues,
    plan: Plan[Recovery],
    *,
    manual: bool = False,
    revision: str | None = None,
    on_progress: Progress = no_progress,
) -> list[Result[Recovery]]:
    """Carry out the plan and record the run; an aborted run stays unfinished in the record."""
    with db.reachable(url):
        return _apply(db.engine_for(url), queues, plan, manual, revision, on_progress)


def run(
    url: URL,
    queues: Queues,
    rules: Rules,
    *,
    revision: str | None = None,
    on_progress: Progress = no_progress,
) -> Sequence[Result[Recovery]] | None:
    """Plan and apply; None if another reconciliation is active."""
    engine = db.engine_for(url)
    with db.reachable(url), reconcile_lock(engine) as free:
        if not free:
            return None
        planned = plan(url, queues, rules)
        if rules.manual and not planned.expected:
            return []  # the named site is not stuck, so the run is not recorded
        return _apply(engine, queues, planned, rules.manual, revision, on_progress)


def find(conn: Connection, hours: float, site: str | None) -> list[StuckSite]:
    """Find all stuck sites, or the given site if it is stuck."""
    if not inspect(conn).has_table(pipeline_claim.name):
        raise ConfigError("this database has no counters yet: run alembic upgrade 0005 first")
    return find_stuck(conn, hours, site)


def _decide(site: StuckSite, facts: Facts) -> Result[Recovery]:
    try:
        return decide(site, facts)
    except (StorageError, HookFailed) as error:
        return needs_person(site, str(error))


def _apply(
    engine: Engine,
    queues: Queues,
    plan: Plan[Recovery],
    manual: bool,
    revision: str | None,
    on_progress: Progress,
) -> list[Result[Recovery]]:
    results: list[Result[Recovery]] = []
    with engine.connect() as conn:
        with conn.begin():
            number = reconciliations.begin_reconciliation(conn, manual=manual, revision=revision)
        try:
            for expected in plan.expected:
                results.append(write_recovery(conn, queues, expected, manual=manual))
                on_progress(len(results), len(plan.expected))
        except Exception as error:
            _end(conn, number, results, broke_off=str(error))
            raise
        _end(conn, number, results, broke_off=None)
    return results


def _end(conn: Connection, number: int, results: list[Result[Recovery]], *, broke_off: str | None) -> None:
    details = [
        {
            "subdomain": recovery.site.subdomain,
            "stage": recovery.site.stage,
            "action": str(recovery.action),
            "result": str(outcome),
            "reason": error_text(reason or ""),
        }
        for recovery, outcome, reason in results
    ]
    with conn.begin():
        reconciliations.end_reconciliation(
            conn, number, count(results, *OUTCOMES), details, broke_off=broke_off
        )
