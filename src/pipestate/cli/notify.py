"""Notification of `verify --record`: a command gets the changed gates as JSON on its standard input.

The ini names it: `pipestate_notify = timeout=10s /usr/local/bin/notify`. It runs without a shell, after the record is
committed. `text` of the JSON has only names of the runbook; values of the database are in `changes`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipestate.cli.formats.json import VERSION, as_plain
from pipestate.cli.output import dumped, say
from pipestate.core.errors import PipestateError
from pipestate.database.connections import engine_of
from pipestate.database.drivers import message
from pipestate.database.interrupt import explain_interrupt
from pipestate.ledger.latest import last_records
from pipestate.ledger.state import require_ledger
from pipestate.probes import run_program
from pipestate.project.find import Project
from pipestate.verify.report import Gate, Report, Verdict

if TYPE_CHECKING:
    from sqlalchemy import Connection

OPTION = "pipestate_notify"


@dataclass(frozen=True, slots=True)
class Change:
    """A gate that opened or closed; `before` is its last record, None if this is the first."""

    runbook: str
    phase: str
    gate: Gate
    before: Gate | None
    opens: tuple[str, ...]
    failing: tuple[Verdict, ...]

    def __str__(self) -> str:
        if self.gate is Gate.OPEN:
            runs = f": {', '.join(self.opens)} may run" if self.opens else ""
            return f"Opened: {self.runbook}/{self.phase}{runs}"
        failing = ", ".join(verdict.check_id for verdict in self.failing)
        return f"Closed: {self.runbook}/{self.phase}: {failing or 'no check was evaluated'}"


def find_changes(connection: "Connection", report: Report) -> tuple[Change, ...]:
    """Compare an unrecorded run with the last records; if these are unreadable, warn and return no change."""
    from sqlalchemy.exc import DBAPIError

    require_ledger(connection)
    try:
        with engine_of(connection).read_only_session(connection):
            records = last_records(connection)
    except DBAPIError as error:
        said = message(error).split("\n")[0]
        say(f"warning: no notification was sent: the last records cannot be read: {said}", err=True)
        return ()
    return compare(report, {(each.runbook, each.phase): each.is_open for each in records})


def compare(report: Report, was_open: dict[tuple[str, str], bool]) -> tuple[Change, ...]:
    """Find the changed gates; the first record of a phase is a change if its gate is open."""
    found = []
    for runbook, phase in report.phases():
        before = was_open.get((runbook.name, phase.name))
        if phase.gate not in (Gate.OPEN, Gate.CLOSED) or (phase.gate is Gate.OPEN) == bool(before):
            continue
        last = None if before is None else Gate.OPEN if before else Gate.CLOSED
        failing = tuple(verdict for verdict in phase.checks if verdict.closes)
        found.append(Change(runbook.name, phase.name, phase.gate, last, phase.opens, failing))
    return tuple(found)


def notify(project: Project, command: str, report: Report, changes: tuple[Change, ...]) -> None:
    """Run the command with the changes; a failure is a warning."""
    info = report.database
    data = {
        **VERSION,
        "text": "\n".join([f"pipestate verify: {info.url}", *map(str, changes)]),
        "ok": report.ok,
        "database": {"url": info.url, "revision": info.revision},
        "at": as_plain(report.started_at),
        "changes": as_plain(changes, {"Verdict": "id=check_id outcome message"}),
    }
    with explain_interrupt(lambda: "the command of pipestate_notify was running; all records are kept"):
        try:
            run_program(project.config or project.scripts, command, dumped(data))
        except PipestateError as error:
            say(f"warning: {OPTION} failed: {error}", err=True)
