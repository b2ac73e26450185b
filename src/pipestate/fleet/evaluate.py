"""Answers of single fleet databases, kept without evidence rows: a thousand of them fit into memory."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, partial

from sqlalchemy import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database import connections as db
from pipestate.database.connections import engine_of
from pipestate.database.urls import shown, without_secrets
from pipestate.fleet.list import Tenant, Unlisted
from pipestate.ledger.drift import Drift, edited_files, read_drift
from pipestate.ledger.record import record_report
from pipestate.project.find import Calls, Project
from pipestate.project.phases import resolve_opens
from pipestate.project.revision_files import read_migrations
from pipestate.project.version_table import Locator, locator, set_found_version_table
from pipestate.runbook.model import Runbook
from pipestate.status.obstacles import with_obstacles
from pipestate.status.plan import plan
from pipestate.verify.checks import Phases, find_phases
from pipestate.verify.read import explain, guarded
from pipestate.verify.report import Gate, Report
from pipestate.verify.run import DEFAULT_TIMEOUT_S, verify_on


@dataclass(frozen=True, slots=True)
class Wrong:
    """A check that failed or errored."""

    check: str
    outcome: str
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class PhaseFound:
    """A phase with its gate and its failed checks."""

    name: str
    gate: Gate
    wrong: tuple[Wrong, ...] = ()

    @property
    def closed_by(self) -> tuple[str, ...]:
        return tuple(each.check for each in self.wrong if each.level == "block")


class UpgradeOutcome(StrEnum):
    """Result of one tenant's upgrade. In a dry run, tenants that are not CURRENT stay PENDING."""

    CURRENT = "current"
    UPGRADED = "upgraded"
    LEFT_PENDING = "held"  # the name in JSON
    FAILED = "failed"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class TenantUpgrade:
    """The upgrade of one database: pending and applied revisions, and those left pending by a closed gate.

    `waiting` maps each revision with a closed gate to that gate; `left_pending` adds the revisions that depend on them.
    """

    wave: int
    outcome: UpgradeOutcome
    before: str | None = None
    pending: tuple[str, ...] = ()
    applied: tuple[str, ...] = ()
    waiting: tuple[tuple[str, str], ...] = ()
    left_pending: tuple[str, ...] = ()
    pending_ungated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """One database's answer. `exit_code` is that of the same command on this database alone.

    With `error`, most other fields are empty. `drift` lists differences from the recorded schema; it is None if
    the comparison was skipped.
    """

    name: str
    url: URL
    schema: str | None
    exit_code: int
    duration_ms: float = 0.0
    error: str | None = None
    dialect: str | None = None
    server_version: str | None = None
    revision: str | None = None
    head: str | None = None
    summary: Mapping[str, int] = field(default_factory=dict)
    phases: tuple[PhaseFound, ...] = ()
    warnings: tuple[str, ...] = ()
    drift: Drift | None = None
    pending: tuple[str, ...] | None = None  # with `next`, the plan
    next: str | None = None
    upgrade: TenantUpgrade | None = None
    obstacles: tuple[str, ...] = ()  # reasons for which an upgrade would refuse what an open gate opens

    @property
    def shown_url(self) -> str:
        return shown(self.url)

    @property
    def closed(self) -> tuple[PhaseFound, ...]:
        return tuple(phase for phase in self.phases if phase.gate is Gate.CLOSED)

    @property
    def is_finished(self) -> bool:
        """Tell whether every selected phase is finished, so that its gates have no answer."""
        return bool(self.phases) and all(phase.gate is Gate.FINISHED for phase in self.phases)


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """The questions for each database, read and linted once for the whole fleet.

    With `record`, runs are written into each ledger; with `compare`, each schema is compared with its record.
    With `calls`, each answer has a plan, and `calls` spells the commands of its next step.
    """

    phases: Phases
    locate: Locator
    timeout_s: float = DEFAULT_TIMEOUT_S
    record: bool = False
    compare: bool = False
    calls: Calls | None = None
    of_gate: bool = False


def evaluate(request: FleetRequest, tenant: Tenant, finished: Collection[str] = ()) -> Answer:
    """Evaluate one database; an error becomes its answer. If it has all `finished` revisions, its checks are skipped."""
    start = time.perf_counter()
    failed = partial(Answer, tenant.name, tenant.url, tenant.schema)
    try:
        answer = _evaluate(request, tenant, finished)
    except PipestateError as error:
        answer = failed(error.exit_code, error=str(error))
    except Exception as error:  # drivers raise many types
        answer = failed(3, error=without_secrets(f"{type(error).__name__}: {error}", tenant.url))
    return replace(answer, duration_ms=round((time.perf_counter() - start) * 1000, 1))


def not_listed(line: Unlisted) -> Answer:
    """Answer for a line of the list that yielded no tenants."""
    return Answer(line.name, line.url, None, line.error.exit_code, error=str(line.error))


def _evaluate(request: FleetRequest, tenant: Tenant, finished: Collection[str]) -> Answer:
    locate = request.locate.within(tenant.schema) if tenant.schema is not None else request.locate
    with db.reader(tenant.url, path=tenant.path, engine=_engine(tenant.url)) as connection:
        position = locate(connection)
        phases = () if finished and position.applied.issuperset(finished) else request.phases
        report = verify_on(
            connection, tenant.url, phases, position, timeout_s=request.timeout_s, evidence=False
        )
        if request.of_gate or request.calls is not None:
            report = with_obstacles(connection, request.locate.migrations, position, report)
            report = replace(report, of_gate=request.of_gate)
        answer = _answer(tenant, report, edited_files(connection, position))
        if request.compare:
            answer = _compared(connection, request, tenant, answer)
    if request.calls is not None:
        found = plan(request.locate.migrations, report, request.calls)
        waiting = tuple(step.revision for step in found.steps if not step.applied)
        answer = replace(answer, pending=waiting, next=found.advice, exit_code=0)
    if request.record:
        with db.writer(tenant.url) as writer:
            set_found_version_table(writer, position.version_table)
            record_report(writer, report, event="verify")
    return answer


def _engine(url: URL) -> Engine | None:
    """Return one engine for all databases on servers; each SQLite file gets a separate one."""
    return None if engine_of(url).IS_FILE else _shared()


_shared = cache(db.shared_engine)


def _answer(tenant: Tenant, report: Report, edited: Sequence[str]) -> Answer:
    """Reduce a report to the parts that differ between databases."""
    info = report.database
    phases = (
        PhaseFound(
            f"{runbook.name}/{phase.name}",
            phase.gate,
            tuple(
                Wrong(each.check_id, str(each.outcome), str(each.level), each.message)
                for each in phase.checks
                if each.went_wrong
            ),
        )
        for runbook, phase in report.phases()
    )
    return Answer(
        tenant.name,
        tenant.url,
        tenant.schema,
        report.exit_code,
        dialect=info.dialect,
        server_version=info.server_version,
        revision=info.revision,
        head=info.head,
        summary=report.summary(),
        phases=tuple(phases),
        warnings=(*report.warnings, *edited),
        obstacles=tuple(report.obstacles.values()),
    )


def _compared(connection: Connection, request: FleetRequest, tenant: Tenant, answer: Answer) -> Answer:
    """Add the differences from the recorded schema; an unreadable record becomes a warning."""
    try:
        with guarded(connection, request.timeout_s):
            return replace(answer, drift=read_drift(connection, schema=tenant.schema))
    except ConfigError as error:
        said = str(error)
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        said = explain(error, request.timeout_s)
    return replace(answer, warnings=(*answer.warnings, f"its schema could not be compared: {said}"))


def make_request(
    project: Project,
    books: Sequence[Runbook],
    names: Sequence[str] = (),
    *,
    version_table: str | None = None,
    timeout_s: float,
    record: bool = False,
    compare: bool = False,
    planned: bool = False,
    of_gate: bool = False,
) -> FleetRequest:
    """Select the checks of these runbooks, or of named phases; refuse a runbook with a broken `opens`."""
    selected = dict.fromkeys(book for book, _ in find_phases(books, names))
    migrations = read_migrations(project)
    phases = find_phases(resolve_opens(migrations, selected, project.named), names)
    calls = Calls(project.named) if planned else None
    locate = locator(project, migrations, version_table)
    return FleetRequest(
        phases, locate, timeout_s, record=record, compare=compare, calls=calls, of_gate=of_gate
    )
