"""Upgrade of a fleet in waves: a worker upgrades each tenant, then it is verified; a bad wave is the last one.

No file keeps the state. A rerun reads the version tables, skips finished tenants, and upgrades the rest.
"""

import math
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.core.progress import Progress, no_progress
from pipestate.core.text import many
from pipestate.database import connections as db
from pipestate.fleet.evaluate import (
    Answer,
    FleetRequest,
    PhaseFound,
    TenantUpgrade,
    UpgradeOutcome,
    evaluate,
    make_request,
    not_listed,
)
from pipestate.fleet.list import Tenant, Tenants, survey
from pipestate.fleet.run import Fleet, OnAnswer, Wave, tally
from pipestate.fleet.worker import Workers
from pipestate.ledger.record import record_schema
from pipestate.ledger.state import read_ledger_state
from pipestate.project.find import Project
from pipestate.project.graph import find_targets
from pipestate.project.phases import locate_runbooks
from pipestate.runbook.files import default_runbooks
from pipestate.verify.report import NO_BLOCKING, Gate

DEFAULT_WAVES = "1,10%,100%"
T = TypeVar("T")


def parse_waves(text: str) -> tuple[tuple[int, bool], ...]:
    """Parse the end of each wave: a number of databases, or with True a percentage of all.

    >>> parse_waves("1,10%,100%")
    ((1, False), (10, True), (100, True))
    """
    ends = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,7})(%?)\s*", part)
        if found is None or int(found[1]) == 0 or (found[2] and int(found[1]) > 100):
            raise ConfigError(f"--waves {text}: write how far each wave goes, as in {DEFAULT_WAVES}")
        ends.append((int(found[1]), bool(found[2])))
    return tuple(ends)


def cut(tenants: Sequence[T], ends: Sequence[tuple[int, bool]]) -> Iterator[Sequence[T]]:
    """Cut a list into waves; skip a wave that ends where the previous one ended.

    >>> [list(wave) for wave in cut("abcdefghijkl", parse_waves("1,10%,50%"))]
    [['a'], ['b'], ['c', 'd', 'e', 'f']]
    """
    done = 0
    for number, of_all in ends:
        end = math.ceil(len(tenants) * number / 100) if of_all else min(number, len(tenants))
        if end > done:
            yield tenants[done:end]
            done = end


@dataclass(frozen=True, slots=True)
class FleetUpgrade:
    """Settings of a fleet upgrade. With `required`, the phases of `request` must be open in each tenant afterwards.

    With `hold`, a tenant exits with 0 if all its pending revisions wait for a gate.
    """

    request: FleetRequest
    wanted: Collection[str]
    ends: Sequence[tuple[int, bool]]
    required: bool = False
    max_failures: int = 0
    hold: bool = False
    dry_run: bool = False


def plan_fleet_upgrade(
    project: Project,
    target: str,
    phases: Sequence[str],
    ends: Sequence[tuple[int, bool]],
    *,
    timeout_s: float,
    version_table: str | None = None,
) -> FleetUpgrade:
    """Read migrations and runbooks once for the fleet; named phases must be open after the upgrade."""
    books = locate_runbooks(project, [], phases) if phases else default_runbooks(project.runbooks)
    request = make_request(project, books, phases, version_table=version_table, timeout_s=timeout_s)
    return FleetUpgrade(request, find_targets(request.locate.migrations, target), ends, required=bool(phases))


def upgrade_fleet(
    how: FleetUpgrade,
    tenants: Tenants,
    workers: Workers,
    jobs: int,
    on_answer: OnAnswer,
    on_progress: Progress = no_progress,
) -> Fleet:
    """Upgrade wave by wave, `jobs` tenants at a time; stop after more than `max_failures` failures."""
    start = time.perf_counter()
    run = _WaveRun(how, workers, len(tenants.found) + len(tenants.unlisted), on_answer, on_progress)
    for line in tenants.unlisted:
        run.take(replace(not_listed(line), upgrade=TenantUpgrade(1, UpgradeOutcome.FAILED)))
    finished, waves = True, list(cut(tenants.found, how.ends)) or [[]]
    with workers.open():
        for number, wave in enumerate(waves, 1):
            if finished and not run.halted.is_set():
                finished = survey(wave, partial(run.upgrade, number), jobs, run.take)
                run.record_schemas(wave)
    return tally(
        run.answers,
        run.total,
        (time.perf_counter() - start) * 1000,
        3 if not finished else None if run.answers else 0,
        run.warnings,
        planned=how.dry_run,
        repeated=tenants.repeated,
        left=run.total - len(run.answers) if finished else 0,
        waves=tuple(
            Wave(number, len(wave) + (number == 1) * len(tenants.unlisted), run.outcomes[number])
            for number, wave in enumerate(waves, 1)
        ),
        stopped=run.why_halted if run.halted.is_set() else None,
    )


@dataclass
class _WaveRun:
    """A running upgrade. One thread calls `take`; many call `upgrade`."""

    how: FleetUpgrade
    workers: Workers
    total: int
    on_answer: OnAnswer
    on_progress: Progress
    answers: list[Answer] = field(default_factory=list)
    outcomes: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    halted: threading.Event = field(default_factory=threading.Event)
    changed: set[str] = field(default_factory=set)
    failures: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def why_halted(self) -> str:
        most = self.how.max_failures
        return f"{many(self.failures, 'database')} failed, and --max-failures is {most:,}"

    def take(self, answer: Answer | None) -> None:
        """Count an answer and pass it on; None is a skipped tenant."""
        if answer is None or answer.upgrade is None:
            return
        self.answers.append(answer)
        self.outcomes[answer.upgrade.wave][answer.upgrade.outcome] += 1
        if answer.upgrade.applied:
            self.changed.add(answer.name)
        self.failures += answer.upgrade.outcome is UpgradeOutcome.FAILED
        if self.failures > self.how.max_failures:
            self.halted.set()
        self.on_answer(answer)
        self.on_progress(len(self.answers), self.total)

    def upgrade(self, wave: int, tenant: Tenant) -> Answer | None:
        """Read, upgrade and verify one tenant."""
        if self.halted.is_set():
            return None
        start, migrations = time.perf_counter(), self.how.request.locate.migrations
        wanted = migrations.ancestors(self.how.wanted)
        # a required gate is evaluated in finished tenants, too
        before = evaluate(self.how.request, tenant, () if self.how.required else wanted)
        done = TenantUpgrade(wave, UpgradeOutcome.CURRENT, before.revision)
        if before.revision is None and before.error is not None:
            return replace(before, upgrade=replace(done, outcome=UpgradeOutcome.FAILED))
        applied = migrations.position((before.revision or "").split()).applied
        pending = wanted - applied
        done = replace(done, pending=tuple(each.id for each in migrations if each.id in pending))
        if self.how.dry_run:
            outcome = UpgradeOutcome.PENDING if pending else UpgradeOutcome.CURRENT
            return replace(before, exit_code=0, upgrade=replace(done, outcome=outcome))
        answer = self._upgrade_pending(tenant, before, done) if pending else self._judge(before, before, done)
        return replace(answer, duration_ms=round((time.perf_counter() - start) * 1000, 1))

    def _upgrade_pending(self, tenant: Tenant, before: Answer, done: TenantUpgrade) -> Answer:
        found = self.workers.upgrade(tenant)
        after = evaluate(self.how.request, tenant)
        done = replace(
            done,
            outcome=UpgradeOutcome.LEFT_PENDING if found.left_pending else UpgradeOutcome.UPGRADED,
            applied=tuple(found.applied),
            left_pending=tuple(found.left_pending),
            pending_ungated=tuple(found.pending_ungated),
            waiting=tuple((revision, gate) for revision, gate in found.waiting),
        )
        if found.error is not None:
            failed = replace(done, outcome=UpgradeOutcome.FAILED)
            return replace(after, exit_code=found.exit_code, error=found.error, upgrade=failed)
        return self._judge(before, after, done)

    def _judge(self, before: Answer, after: Answer, done: TenantUpgrade) -> Answer:
        """Judge a tenant: it must answer, and checks that passed before must still pass."""
        wrong = after.error or "; ".join(worse(before.phases, after.phases, required=self.how.required))
        if wrong:
            code = max(after.exit_code, 1) if after.error else 1
            failed = replace(done, outcome=UpgradeOutcome.FAILED)
            said = wrong if after.error else f"not well at {after.revision or 'base'}: {wrong}"
            return replace(after, exit_code=code, error=said, upgrade=failed)
        waits = bool(done.pending_ungated) or (bool(done.left_pending) and not self.how.hold)
        return replace(after, exit_code=int(waits), upgrade=done)

    def record_schemas(self, wave: Sequence[Tenant]) -> None:
        """Record the schema of each database upgraded in a wave, if it has a ledger."""
        urls = {tenant.url for tenant in wave if tenant.path and tenant.name in self.changed}
        for url in urls:
            try:
                with db.writer(url) as connection:
                    state = read_ledger_state(connection)
                    if state.installed and not state.missing:
                        record_schema(connection, " ".join(sorted(self.how.wanted)))
            except PipestateError as error:
                self.warnings.append(f"the schema was not recorded: {error}")


def worse(before: Sequence[PhaseFound], after: Sequence[PhaseFound], *, required: bool) -> Iterator[str]:
    """List the blocking checks that failed only after an upgrade; with `required`, all that fail or are missing.

    Phases that did not apply before are skipped: their backfill, for example, has yet to run.
    """
    evaluated = {phase.name for phase in before if phase.gate in (Gate.OPEN, Gate.CLOSED)}
    known = {(phase.name, check) for phase in before for check in phase.closed_by}
    for phase in after:
        for wrong in phase.wrong:
            is_new = phase.name in evaluated and (phase.name, wrong.check) not in known
            if wrong.level == "block" and phase.gate is Gate.CLOSED and (required or is_new):
                yield f"{phase.name}/{wrong.check}: {wrong.message}"
        if required and phase.gate is Gate.CLOSED and not phase.closed_by:
            yield f"{phase.name}: {NO_BLOCKING}"
