"""Reconciliation: recover stuck sites.

1. `plan` finds the stuck sites and decides about each (decide.py). It only reads; a dry run ends here.
2. `apply` carries out exactly that plan, each site in its own transaction (write.py), and records
   the run. A site that changed after the plan is skipped.
3. `run` does both under the reconcile lock, so that one reconciliation works at a time.
"""

import fcntl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sqlalchemy import URL, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError
from pipestate.core.progress import Progress, no_progress
from pipestate.database import connections as db
from pipestate.database.connections import choose
from pipestate.pipeline.planning import Plan, Result, Trigger
from pipestate.pipeline.queues.port import Queues
from pipestate.pipeline.reconcile.decide import Recovery, Rules, decide, needs_person
from pipestate.pipeline.reconcile.stuck import HookFailed, StuckSite, find_stuck, load_missing
from pipestate.pipeline.reconcile.write import begin_reconciliation, end_reconciliation, write_recovery
from pipestate.pipeline.schema import pipeline_claim
from pipestate.pipeline.storage import StorageError


def plan(url: URL, queues: Queues, rules: Rules) -> Plan[Recovery]:
    """Decide about every stuck site; reads only, in both the database and the queue."""
    rules = replace(
        rules, alive=queues.alive(rules.config.queues()), missing=load_missing(rules.config.missing)
    )
    with db.reader(url) as conn:
        if not inspect(conn).has_table(pipeline_claim.name):
            raise ConfigError("this database has no counters yet: run alembic upgrade 0005 first")
        found = find_stuck(conn, rules.hours, rules.site)
    # Files and hooks may be slow, so they run outside any transaction.
    return Plan([_decide(site, rules) for site in found])


def _decide(site: StuckSite, rules: Rules) -> Result[Recovery]:
    try:
        return decide(site, rules)
    except (StorageError, HookFailed) as error:
        return needs_person(site, str(error))


def apply(
    url: URL,
    queues: Queues,
    plan: Plan[Recovery],
    *,
    named: bool = False,
    trigger: Trigger = Trigger.MANUAL,
    revision: str | None = None,
    on_progress: Progress = no_progress,
) -> list[Result[Recovery]]:
    """Carry out the plan and record the run; an aborted run stays unfinished in the record.

    `named` says that a person named the site: its attempts are counted from the beginning.
    """
    results: list[Result[Recovery]] = []
    with db.reachable(url), db.engine_for(url).connect() as conn:
        number = begin_reconciliation(conn, trigger=trigger, revision=revision)
        try:
            for expected in plan.expected:
                results.append(write_recovery(conn, queues, expected, named=named))
                on_progress(len(results), len(plan.expected))
        except Exception as error:
            end_reconciliation(conn, number, results, broke_off=str(error))
            raise
        end_reconciliation(conn, number, results)
    return results


def run(
    url: URL,
    queues: Queues,
    rules: Rules,
    *,
    trigger: Trigger = Trigger.MANUAL,
    revision: str | None = None,
    on_progress: Progress = no_progress,
) -> Sequence[Result[Recovery]] | None:
    """Plan and apply; None if another reconciliation is active."""
    with db.reachable(url), reconcile_lock(db.engine_for(url)) as free:
        if not free:
            return None
        planned = plan(url, queues, rules)
        if rules.named and not planned.expected:
            return []  # the named site is not stuck, so the run is not recorded
        return apply(
            url,
            queues,
            planned,
            named=rules.named,
            trigger=trigger,
            revision=revision,
            on_progress=on_progress,
        )


# Lock between reconciliations; it ends with its holder, even after a kill.


LOCK = {"a": 0x70697065, "b": 0x7265636F}  # "pipe", "reco" as two integers
# Overrides the role's and the database's settings in this transaction; PostgreSQL 16 has only one of them.
NO_TIMEOUTS = (
    "SELECT set_config(name, '0', true) FROM pg_catalog.pg_settings"
    " WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')"
)


@contextmanager
def reconcile_lock(engine: Engine) -> Iterator[bool]:
    """Hold the reconcile lock; yield False when another run has it."""
    with choose(LOCKS, engine)(engine) as free:
        yield free


@contextmanager
def _advisory_lock(engine: Engine) -> Iterator[bool]:
    """Hold a transaction-level advisory lock on a separate connection, which also works behind PgBouncer.

    The transaction holds no snapshot, so vacuum can proceed. If the connection is lost, the work continues
    safely: each site is written only if it still matches the plan.
    """
    connection = engine.connect()
    try:
        connection.exec_driver_sql(NO_TIMEOUTS)
        yield bool(connection.scalar(text("SELECT pg_try_advisory_xact_lock(:a, :b)"), LOCK))
    finally:
        with suppress(DBAPIError):
            connection.close()


@contextmanager
def _file_lock(engine: Engine) -> Iterator[bool]:
    """Lock a file beside the SQLite database."""
    path = Path(f"{engine.url.database}.reconcile")
    try:
        file = path.open("a")
    except OSError as error:
        message = f"cannot open {path}: {error.strerror}; reconcile locks this file, make it writable"
        raise ConfigError(message) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


LOCKS = {"postgresql": _advisory_lock, "sqlite": _file_lock}
