"""Reconciliation: bring stuck sites back to life.

1. `plan` finds the stuck sites and decides about each (decide.py). It only reads; a dry run ends here.
2. `apply` carries out exactly that plan, each site in its own transaction (write.py), and keeps a record of
   the run. A site that moved on since the plan is left alone.
3. `run` is both under the reconcile lock, so that one reconciliation works at a time.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import URL, Connection, Engine, inspect

from pipestate import db
from pipestate.errors import ConfigError
from pipestate.pipeline import reconciliations
from pipestate.pipeline.error_text import error_text
from pipestate.pipeline.planning import Plan, Result, SubjectOutcome, count
from pipestate.pipeline.queues.config import QueueConfig
from pipestate.pipeline.queues.port import Queues
from pipestate.pipeline.reconcile.decide import MAX_ATTEMPTS, Action, Facts, Recovery, decide, needs_person
from pipestate.pipeline.reconcile.lock import reconcile_lock
from pipestate.pipeline.reconcile.missing import HookFailed, load_missing
from pipestate.pipeline.reconcile.stuck import StuckSite, find_stuck
from pipestate.pipeline.reconcile.write import write_recovery
from pipestate.pipeline.storage import Storage, StorageError
from pipestate.pipeline.threshold import THRESHOLD_HOURS
from pipestate.progress import Progress, untold
from pipestate.schema import pipeline_claim

__all__ = ["OUTCOMES", "Action", "Recovery", "Rules", "apply", "plan", "run"]

OUTCOMES = (SubjectOutcome.RECOVERED, SubjectOutcome.SKIPPED, SubjectOutcome.FAILED)


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as stuck, and how to recover it. With `site` a person asks: no cap on attempts."""

    config: QueueConfig = field(default_factory=QueueConfig)
    storage: Storage | None = None
    hours: float = THRESHOLD_HOURS
    max_attempts: int = MAX_ATTEMPTS
    site: str | None = None

    @property
    def manual(self) -> bool:
        return self.site is not None


def plan(url: URL, queues: Queues, rules: Rules) -> Plan[Recovery]:
    """Decide about every stuck site; reads only, in the database and in the queue alike."""
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
    # Files and hooks may take long: no transaction waits for them.
    return Plan([_decide(site, facts) for site in found])


def apply(
    url: URL,
    queues: Queues,
    plan: Plan[Recovery],
    *,
    manual: bool = False,
    revision: str | None = None,
    on_progress: Progress = untold,
) -> list[Result[Recovery]]:
    """Carry out the plan and record the run; one that breaks off stays unfinished on record."""
    with db.reachable(url):
        return _apply(db.engine_for(url), queues, plan, manual, revision, on_progress)


def run(
    url: URL, queues: Queues, rules: Rules, *, revision: str | None = None, on_progress: Progress = untold
) -> Sequence[Result[Recovery]] | None:
    """Plan and apply; None when another reconciliation is under way."""
    engine = db.engine_for(url)
    with db.reachable(url), reconcile_lock(engine) as free:
        if not free:
            return None
        planned = plan(url, queues, rules)
        if rules.manual and not planned.expected:
            return []  # a person has looked, and intervened in nothing
        return _apply(engine, queues, planned, rules.manual, revision, on_progress)


def find(conn: Connection, hours: float, site: str | None) -> list[StuckSite]:
    """Find the stuck sites, or that one if it is stuck."""
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
