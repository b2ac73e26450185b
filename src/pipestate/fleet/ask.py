"""Asking one database of a fleet: one connection, one snapshot, and whatever goes wrong is its answer."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from sqlalchemy import URL, Connection, Engine

from pipestate import db
from pipestate.chain.calls import Calls
from pipestate.chain.version_table import Locator, tell_found
from pipestate.config import without_secrets
from pipestate.engines.engine import engine_of
from pipestate.errors import PipestateError
from pipestate.fleet.answer import Answer, Pending, phases_of
from pipestate.fleet.tenants import Tenant, Unlisted
from pipestate.ledger.record import record_report
from pipestate.rehearse.definitions import limit_to, read_digest
from pipestate.runbook.model import Phase, Runbook
from pipestate.verify.plan import plan
from pipestate.verify.report import Report
from pipestate.verify.rows import QueryFailed
from pipestate.verify.run import DEFAULT_TIMEOUT_S, verify_on


@dataclass(frozen=True, slots=True)
class FleetQuestion:
    """What each database is asked; read and linted once for all of them.

    With `record` the runs are written into each ledger, with `compare` the schema is read as a digest, with
    `calls` there is a plan, whose next step they name.
    """

    phases: Sequence[tuple[Runbook, Phase]]
    locate: Locator
    timeout_s: float = DEFAULT_TIMEOUT_S
    record: bool = False
    compare: bool = False
    calls: Calls | None = None


def ask(question: FleetQuestion, tenant: Tenant) -> Answer:
    """Ask one database. An error is an answer, too: it must not stop the others."""
    start = time.perf_counter()
    try:
        answer = _ask(question, tenant)
    except PipestateError as error:
        answer = _failed(tenant, str(error), error.exit_code)
    except Exception as error:  # whatever a driver raises for one odd database
        said = without_secrets(f"{type(error).__name__}: {error}", tenant.url)
        answer = _failed(tenant, said, 3)
    return replace(answer, duration_ms=round((time.perf_counter() - start) * 1000, 1))


def not_listed(line: Unlisted) -> Answer:
    """Answer for a line of the list whose tenants are not known."""
    return Answer(line.name, line.url, None, line.error.exit_code, error=str(line.error))


def _ask(question: FleetQuestion, tenant: Tenant) -> Answer:
    locate = question.locate.within(tenant.schema) if tenant.schema is not None else question.locate
    with db.reader(tenant.url, path=tenant.path, engine=_engine(tenant.url)) as connection:
        position = locate(connection)
        report = verify_on(
            connection,
            tenant.url,
            question.phases,
            position,
            timeout_s=question.timeout_s,
            evidence=False,
        )
        answer = _answer(tenant, report)
        if question.compare:
            answer = _compared(connection, question, tenant, answer)
    if question.calls is not None:
        answer = _planned(question, report, question.calls, answer)
    if question.record:
        with db.writer(tenant.url) as writer:
            tell_found(writer, position.version_table)
            record_report(writer, report, event="verify")
    return answer


@cache
def _shared() -> Engine:
    return db.shared_engine()


def _engine(url: URL) -> Engine | None:
    """Return one engine for all databases of servers; a file gets its own."""
    return None if engine_of(url).IS_FILE else _shared()


def _answer(tenant: Tenant, report: Report) -> Answer:
    info = report.database
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
        phases=phases_of(report),
        warnings=report.warnings,
    )


def _compared(connection: Connection, question: FleetQuestion, tenant: Tenant, answer: Answer) -> Answer:
    """Add the digest of the schema; one that cannot be read is a warning, and is compared with nothing."""
    try:
        if tenant.schema is not None:
            limit_to(connection, tenant.schema)
        return replace(answer, definitions=read_digest(connection, question.timeout_s))
    except QueryFailed as error:
        return replace(answer, warnings=(*answer.warnings, f"its schema could not be compared: {error}"))


def _planned(question: FleetQuestion, report: Report, calls: Calls, answer: Answer) -> Answer:
    found = plan(question.locate.chain, report, calls)
    waiting = tuple(step.revision for step in found.steps if not step.applied)
    return replace(answer, pending=Pending(waiting, found.advice), exit_code=0)


def _failed(tenant: Tenant, said: str, exit_code: int) -> Answer:
    return Answer(tenant.name, tenant.url, tenant.schema, exit_code, error=said)
