"""The commands `verify` and `gate`: they run the runbooks' checks, read-only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import (
    DEFAULT_TIMEOUT_S,
    AsJson,
    Phases,
    Runbooks,
    Target,
    Timeout,
    Verbose,
    complete_phase,
    project_options,
)
from pipestate.cli.output import Format, dumped, put, say, show, stopwatch
from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database.interrupt import Interrupted, explain_interrupt
from pipestate.database.urls import shown

if TYPE_CHECKING:
    from pipestate.ledger.latest import Latest
    from pipestate.runbook.model import Runbook
    from pipestate.verify.report import Report

ALL_ROWS = 2_000_000_000
CHECKING_AFTER_S = 1.0
Jobs = Annotated[
    int, typer.Option("--jobs", metavar="N", min=1, max=32, help="Run N checks at once, on one snapshot.")
]

Evidence = Annotated[
    str | None,
    typer.Option("--evidence", metavar="N", help="Show N rows of evidence for each failed check, or all."),
]


@project_options
def verify(
    to: Target,
    runbooks: Runbooks = None,
    phases: Phases = None,
    json_: AsJson = False,
    form: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="Format of the report.")
    ] = Format.CONSOLE,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report into this file.")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Write the result into the ledger.")] = False,
    apply_migration: Annotated[
        bool, typer.Option("--apply-migration", help="Upgrade to the first gate before the checks run.")
    ] = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = 1,
    evidence: Evidence = None,
    verbose: Verbose = False,
) -> None:
    """Run the checks of the runbooks, and say which gates are open. The checks only read, and all of them see one snapshot.

    Exit codes: 0 all blocking checks passed; 1 one failed; 2 wrong usage, or no check ran; 3 could not be evaluated.

    Example: pipestate verify --phase readiness

    Example: pipestate verify --format junit --output report.xml
    """
    from pipestate.project.phases import locate_runbooks

    chosen = Format.JSON if json_ else form
    most = parse_evidence(evidence)
    with errors_for_machines(to, chosen, output):
        books = locate_runbooks(to.project, runbooks or [], phases or [])
        if apply_migration:
            from pipestate.cli.upgrade import upgrade_of
            from pipestate.migration.upgrade import upgrade_to_gates

            upgrade_to_gates(upgrade_of(to))  # Alembic's output is written to stderr
        report = check(to, books, phases or [], timeout=timeout, jobs=jobs, most=most)
        if record:
            write_down(to, report)
    latest = latest_of(to) if chosen is Format.OPENMETRICS else None
    show(report, chosen, output, to.calls, latest, verbose=verbose, most=most)
    raise typer.Exit(report.exit_code)


@project_options
def gate(
    to: Target,
    phase: Annotated[
        str,
        typer.Argument(
            metavar="[RUNBOOK/]PHASE",
            help="The phase, with its runbook where the name is ambiguous.",
            autocompletion=complete_phase,
        ),
    ],
    wait: Annotated[
        str | None, typer.Option("--wait", metavar="30m", help="Longest time to wait for the gate to open.")
    ] = None,
    json_: AsJson = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = 1,
    evidence: Evidence = None,
    verbose: Verbose = False,
) -> None:
    """Say whether a gate is open, and which checks keep it closed.

    Exit codes: 0 open; 1 closed; 2 wrong usage, or no check ran; 3 could not be evaluated.

    Example: pipestate gate readiness && alembic upgrade head
    """
    from pipestate.project.phases import load_runbooks

    chosen = Format.JSON if json_ else Format.CONSOLE
    most = parse_evidence(evidence)
    with errors_for_machines(to, chosen):
        books = load_runbooks(to.project, phase)
        evaluate = partial(check, to, books, [phase], timeout=timeout, jobs=jobs, command="gate", most=most)
        report = evaluate() if wait is None else evaluate_until_open(evaluate, phase, wait)
    show(report, chosen, None, to.calls, verbose=verbose, most=most)
    raise typer.Exit(report.exit_code)


def parse_evidence(given: str | None) -> int | None:
    """Read `--evidence`: a number of rows, or all of them."""
    if given is None:
        return None
    if given == "all":
        return ALL_ROWS
    if not (given.isascii() and given.isdigit() and 0 < int(given) <= ALL_ROWS):
        raise ConfigError(f"--evidence {given}: give a number of rows from 1 on, or all")
    return int(given)


def evaluate_until_open(evaluate: Callable[[], "Report"], phase: str, wait: str) -> "Report":
    """Evaluate until the gate is open or the time is over; report changes on stderr."""
    from pipestate.core.text import parse_age
    from pipestate.verify.wait import wait_for_opening

    patience = parse_age(wait, option="--wait", units="dhms")
    with explain_interrupt(lambda: f"{phase} had not opened yet"):
        return wait_for_opening(
            evaluate, patience.total_seconds(), lambda missing: say(f"{phase}: {missing}", err=True)
        )


@contextmanager
def errors_for_machines(to: Target, form: Format, output: Path | None = None) -> Iterator[None]:
    """Write JSON or metrics for a failed evaluation; stderr gets the error message."""
    try:
        yield
    except PipestateError as error:
        if form is Format.JSON:
            from pipestate.cli.formats.json import error_as_data

            put(dumped(error_as_data(to.url, error)), output)
        elif form is Format.OPENMETRICS:
            from pipestate.cli.formats.openmetrics import error_as_openmetrics

            put(error_as_openmetrics(shown(to.url), error.exit_code), output, at_once=True)
        raise


def check(
    to: Target,
    books: "list[Runbook]",
    names: list[str],
    *,
    timeout: float,
    jobs: int,
    command: str = "verify --phase",
    most: int | None = None,
) -> "Report":
    """Run the checks of these runbooks, or of the named phases; refuse a runbook with a wrong `opens`."""
    from pipestate.database import connections as db
    from pipestate.ledger.contracts import without_ended_backfills
    from pipestate.ledger.drift import edited_files
    from pipestate.project.phases import resolve_opens
    from pipestate.status.obstacles import with_obstacles
    from pipestate.verify.checks import find_phases
    from pipestate.verify.run import EVIDENCE_ROWS, verify_on

    found = find_phases(books, names, lambda phase: to.calls.pipestate(f"{command} {phase}"))
    selected = dict.fromkeys(book for book, _ in found)
    phases = find_phases(resolve_opens(to.migrations, selected, to.project.named), names)
    with stopwatch(CHECKING_AFTER_S) as tell, db.reader(to.url) as connection:
        position = to.locate(connection)
        edited = edited_files(connection, position)
        report = verify_on(
            *(connection, to.url, phases, position),
            timeout_s=timeout,
            jobs=jobs,
            on_check=lambda check, number, total: tell(f"check {number} of {total}: {check}"),
            most=most or EVIDENCE_ROWS,
        )
        report = without_ended_backfills(connection, report, phases, position)
        report = with_obstacles(connection, to.migrations, position, report)
    warnings = (*report.warnings, *edited, *to.warnings)
    return replace(report, warnings=warnings, of_gate=command == "gate")


def write_down(to: Target, report: "Report") -> None:
    """Record the run in the ledger; then run the command of the ini, if a gate has changed."""
    from pipestate.ledger.record import record_report

    command = to.project.option("pipestate_notify")
    with to.connect(write=True) as (connection, _):
        if command:
            from pipestate.cli.notify import find_changes

            changes = find_changes(connection, report)
        record_report(connection, report, event="verify")
    if command and changes:
        from pipestate.cli.notify import notify

        notify(to.project, command, report, changes)


def latest_of(to: Target) -> "Latest | None":
    """Read the ledger's latest figures; if that fails, warn and continue."""
    from pipestate.ledger.latest import read_latest

    try:
        with to.connect() as (connection, _):
            return read_latest(connection)
    except Interrupted:
        raise
    except PipestateError as error:
        say(f"warning: the figures of the ledger are left out: {error}", err=True)
        return None
