"""Checks of a shipped runbook, run on a test's database as `verify` runs them."""

from functools import cache

from pipestate.runbook.lint import load
from pipestate.runbook.model import Check, Phase, Runbook, SignOff, View
from pipestate.verify.checks import SelectedCheck
from pipestate.verify.report import Outcome, Verdict
from pipestate.verify.run import DEFAULT_TIMEOUT_S, run_check
from pipestate.verify.session_safety import set_file_hashes
from support.alembic_runs import ROOT, Migrations
from support.servers import Database

# The revisions of the shipped migrations: what was rehearsed are exactly these.
FILES = {path.name.partition("_")[0]: path for path in (ROOT / "alembic" / "versions").glob("0*.py")}


@cache
def shipped(name: str) -> Runbook:
    return load(ROOT / "runbooks" / f"{name}.md")


def verdicts(database: Database, runbook: Runbook, phase: str | None = None) -> dict[str, Verdict]:
    """Every check that applies at the database's revision, sign-offs left out; `phase/id` to verdict."""
    revision = Migrations(database).revision()
    selected = [
        SelectedCheck(runbook, section, check, None)
        for section in runbook.phases
        if phase in (None, section.name) and applies(section, revision)
        for check in section.checks_for(dialect(database))
        if isinstance(check, Check) and applies(check, revision)
    ]
    with database.reader() as connection:
        set_file_hashes(connection, [each.check for each in selected], FILES)
        return {address(each): run_check(connection, each, DEFAULT_TIMEOUT_S) for each in selected}


def verdict(database: Database, runbook: Runbook, check: str) -> Verdict:
    """One check, whatever the revision is; `check` is `phase/id`."""
    name, _, id = check.partition("/")
    section = runbook.phase(name)
    assert section is not None, check
    (found,) = [each for each in section.checks_for(dialect(database)) if each.id == id]
    with database.reader() as connection:
        return run_check(connection, SelectedCheck(runbook, section, found, None), DEFAULT_TIMEOUT_S)


def not_passed(found: dict[str, Verdict]) -> dict[str, str]:
    return {check: each.message for check, each in found.items() if each.outcome is not Outcome.PASSED}


def rows_of(found: Verdict) -> list[tuple[object, ...]]:
    """What is shown when it fails, without the names of the columns."""
    return [tuple(row.values()) for row in found.evidence]


def ids(runbook: Runbook, phase: str) -> list[str]:
    """The phase's checks that are SQL, whatever the engine."""
    return [id for name, _, id in (check.partition("/") for check in checks_of(runbook)) if name == phase]


def checks_of(runbook: Runbook, engine: str | None = None) -> list[str]:
    """`phase/id` of every check that is SQL, on one engine or on any."""
    return [
        f"{phase.name}/{id}"
        for phase in runbook.phases
        for id in dict.fromkeys(
            check.id
            for check in (phase.checks_for(engine) if engine else phase.checks)
            if isinstance(check, Check)
        )
    ]


def views(database: Database, runbook: Runbook) -> dict[str, list[tuple[object, ...]]]:
    """What each view shows, up to what the page itself limits."""
    return {
        view.id: database.rows(view.sql)
        for phase in runbook.phases
        for view in phase.views_for(dialect(database))
    }


def address(selected: SelectedCheck) -> str:
    return f"{selected.phase.name}/{selected.check.id}"


def applies(scope: Phase | Check | SignOff | View, revision: str | None) -> bool:
    """The migrations are linear and their ids are in order."""
    return (scope.from_ or "") <= (revision or "") and (scope.until is None or (revision or "") < scope.until)


def dialect(database: Database) -> str:
    return database.url.get_backend_name()
