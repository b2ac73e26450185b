"""`pipestate verify` and `pipestate gate`: run the runbook, read-only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli import complete
from pipestate.cli.notify import failure_notified, find_news, find_webhooks, tell
from pipestate.cli.options import AsJson, Target, project_options
from pipestate.cli.output import Format, put, say, show
from pipestate.cli.progress import checking
from pipestate.config import shown
from pipestate.errors import PipestateError
from pipestate.interrupt import Interrupted, telling

if TYPE_CHECKING:
    from pipestate.ledger.latest import Latest
    from pipestate.runbook.model import Runbook
    from pipestate.verify.report import Report
    from pipestate.webhook import Webhook

DEFAULT_TIMEOUT_S = 30.0
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="How long one check may take.")
]
Jobs = Annotated[
    int,
    typer.Option("--jobs", metavar="N", min=1, max=32, help="How many checks run at once, on one snapshot."),
]

Phases = Annotated[
    list[str] | None,
    typer.Option(
        "--phase",
        metavar="PHASE",
        help="Only this one: PHASE, or RUNBOOK/PHASE; as often as needed.",
        show_default=False,
        autocompletion=complete.phase,
    ),
]


@project_options
def verify(
    to: Target,
    runbooks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUNBOOK",
            help="Names, or paths of .md files; else all that run by default.",
            show_default=False,
            autocompletion=complete.runbook,
        ),
    ] = None,
    phases: Phases = None,
    json_: AsJson = False,
    form: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="How to print the report.")
    ] = Format.CONSOLE,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the report into this file.", show_default=False
        ),
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Write the result into the ledger.")] = False,
    notify: Annotated[
        list[str] | None,
        typer.Option(
            "--notify",
            metavar="URL",
            help="With --record: a webhook to tell when a gate opens or closes; repeatable.",
            show_default=False,
        ),
    ] = None,
    apply_migration: Annotated[
        bool, typer.Option("--apply-migration", help="First upgrade up to the first gate.")
    ] = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = 1,
) -> None:
    """Run the checks of the runbooks, and say which gates are open. It only reads, and all checks see one snapshot.

    Exit code 0: all blocking checks passed; 1: one failed; 2: wrong usage, or nothing to check; 3: not evaluated.

    Example: pipestate verify --phase readiness

    Example: pipestate verify --format junit --output report.xml
    """
    from pipestate.chain.pages import find_pages

    chosen = Format.JSON if json_ else form
    webhooks = find_webhooks(notify, record=record)
    with errors_for_machines(to, chosen, output), failure_notified(webhooks, to):
        books = find_pages(to.project, runbooks or [], phases or [])
        if apply_migration:
            upgrade_ungated(to)
        report = check(to, books, phases or [], timeout=timeout, jobs=jobs)
        if record:
            write_down(to, report, webhooks)
    show(report, chosen, output, to.calls, latest_of(to) if chosen is Format.OPENMETRICS else None)
    raise typer.Exit(report.exit_code)


@project_options
def gate(
    to: Target,
    phase: Annotated[
        str,
        typer.Argument(
            metavar="[RUNBOOK/]PHASE",
            help="The phase; with its runbook, where several have one of that name.",
            autocompletion=complete.phase,
        ),
    ],
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="30m", help="How long to wait for it to open.", show_default=False),
    ] = None,
    json_: AsJson = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    jobs: Jobs = 1,
) -> None:
    """Say whether a gate is open and, if it is not, what is missing.

    Exit code 0: it is open; 1: it is closed; 2: wrong usage, or nothing to check; 3: not evaluated.

    Example: pipestate gate readiness && alembic upgrade head
    """
    from pipestate.chain.pages import pages_at

    chosen = Format.JSON if json_ else Format.CONSOLE
    with errors_for_machines(to, chosen):
        books = pages_at(to.project, phase)
        ask = partial(check, to, books, [phase], timeout=timeout, jobs=jobs, trusting=False)
        report = ask() if wait is None else ask_until_open(ask, phase, wait)
    show(report, chosen, None, to.calls)
    raise typer.Exit(report.exit_code)


def ask_until_open(ask: Callable[[], "Report"], phase: str, wait: str) -> "Report":
    """Ask until the gate is open or the time is over; say on stderr what is missing, when that changes."""
    from pipestate.ledger.ages import parse_age
    from pipestate.verify.wait import wait_for_opening

    patience = parse_age(wait, option="--wait", units="dhms")
    with telling(lambda: f"{phase} had not opened yet"):
        return wait_for_opening(
            ask, patience.total_seconds(), lambda missing: say(f"{phase}: {missing}", err=True)
        )


@contextmanager
def errors_for_machines(to: Target, form: Format, output: Path | None = None) -> Iterator[None]:
    """Write JSON or metrics also where nothing could be evaluated; the sentence goes to stderr."""
    try:
        yield
    except PipestateError as error:
        if form is Format.JSON:
            from pipestate.render.machine import error_as_json

            put(error_as_json(to.url, error), output)
        elif form is Format.OPENMETRICS:
            from pipestate.render.openmetrics import error_as_openmetrics

            put(error_as_openmetrics(shown(to.url), error.exit_code), output, at_once=True)
        raise


def check(
    to: Target,
    books: "list[Runbook]",
    names: list[str],
    *,
    timeout: float,
    jobs: int,
    trusting: bool = True,
) -> "Report":
    """Run the checks of these pages, or of phases that are named; a page whose `opens` is broken is refused.

    Without `trusting` so is a database in which somebody else could answer: a migration would refuse it, too.
    """
    from pipestate.chain.revisions import refuse_wrong_revisions
    from pipestate.verify.run import verify
    from pipestate.verify.select import find_phases

    phases = find_phases(books, names)
    asked = [book for book in books if any(book is each for each, _ in phases)]
    refuse_wrong_revisions(to.chain, asked, to.project.named)
    with checking() as on_check:
        return verify(
            to.url, phases, to.locate, timeout_s=timeout, jobs=jobs, on_check=on_check, trusting=trusting
        )


def write_down(to: Target, report: "Report", webhooks: "list[Webhook]") -> None:
    """Record the run in the ledger; then tell the webhooks what is news in it."""
    from pipestate import db
    from pipestate.ledger.record import record_report

    with db.writer(to.url) as connection:
        to.locate(connection)
        news = find_news(connection, report) if webhooks else ()
        record_report(connection, report, event="verify")
    if news:
        from pipestate.render.notice import notice_of

        tell(webhooks, notice_of(report, news))


def latest_of(to: Target) -> "Latest | None":
    """Read the ledger's last word; where it cannot be read, that is said, and the run stays what it was."""
    from pipestate import db
    from pipestate.ledger.latest import read_latest

    try:
        with db.reader(to.url) as connection:
            to.locate(connection)
            return read_latest(connection)
    except Interrupted:
        raise
    except PipestateError as error:
        say(f"warning: the figures of the ledger are left out: {error}", err=True)
        return None


def upgrade_ungated(to: Target) -> None:
    """Upgrade to the last revision before any gate; what Alembic says goes to stderr."""
    from pipestate.cli.upgrade import climb_of
    from pipestate.environment.upgrade import climb_to_gates

    climb_to_gates(climb_of(to))
