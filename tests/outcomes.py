"""Checks of a runbook, run on a test's database: the one place that knows how."""

from alembics import ROOT, Chain
from bed import Database
from pipestate.db import reader
from pipestate.runbook.lint import load
from pipestate.runbook.model import Check, Phase, Runbook, SignOff, View
from pipestate.verify.expect import Judgement, judge
from pipestate.verify.read import read
from pipestate.verify.run import DEFAULT_TIMEOUT_S, EVIDENCE_ROWS
from pipestate.verify.values import Row
from pipestate.verify.verdict import Outcome


def shipped(name: str) -> Runbook:
    return load(ROOT / "runbooks" / f"{name}.md")


def outcome(database: Database, check: Check) -> Judgement:
    """What became of one check, in the variant that it was given."""
    with reader(database.url) as connection:
        return judge(check.require, read(connection, check.sql, DEFAULT_TIMEOUT_S, most=EVIDENCE_ROWS))


def outcomes(database: Database, runbook: Runbook) -> dict[str, Outcome]:
    """Every check that applies at the database's revision, sign-offs left out; `phase/check` to outcome."""
    revision = Chain(database).revision()
    return {
        f"{phase.name}/{check.id}": outcome(database, check).outcome
        for phase in runbook.phases
        if applies(phase, revision)
        for check in checks(phase, database)
        if applies(check, revision)
    }


def checks(phase: Phase, database: Database) -> list[Check]:
    return [check for check in phase.checks_for(dialect(database)) if isinstance(check, Check)]


def find_check(runbook: Runbook, address: str, database: Database) -> Check:
    name, _, id = address.partition("/")
    phase = runbook.phase(name)
    assert phase is not None, address
    (check,) = [check for check in checks(phase, database) if check.id == id]
    return check


def evidence(database: Database, check: Check) -> list[Row]:
    """What is shown when it fails: its own rows, or those of the block that explains it."""
    shown = check if check.require.shows_own_rows else check.evidence_for(dialect(database))
    assert shown is not None, f"{check.id} shows nothing on {dialect(database)} when it fails"
    with reader(database.url) as connection:
        return list(read(connection, shown.sql, DEFAULT_TIMEOUT_S, most=EVIDENCE_ROWS).rows)


def applies(scope: Phase | Check | SignOff | View, revision: str | None) -> bool:
    """The chain is linear and its ids are in order."""
    return (scope.from_ or "") <= (revision or "") and (scope.until is None or (revision or "") < scope.until)


def dialect(database: Database) -> str:
    return "sqlite" if database.is_sqlite else "postgresql"
