"""The terminal: phases, a row a check with what was required and observed, evidence under failures."""

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pipestate.chain.calls import Calls
from pipestate.plural import many
from pipestate.render.rows import rows_table
from pipestate.render.text import closing_line, took
from pipestate.safe import plain
from pipestate.verify.report import Gate, PhaseReport, Report, RunbookReport
from pipestate.verify.verdict import Outcome, Verdict

STYLES = {
    "passed": "green",
    "failed": "bold red",
    "errored": "bold magenta",
    "skipped": "dim",
    "warned": "yellow",
}
WORDS = {Gate.AHEAD: ": its revision is not reached yet", Gate.PAST: ": nothing is asked any more"}
SLOW_MS = 1000  # what took longer is worth a figure
GATES = {Gate.OPEN: "bold green", Gate.CLOSED: "bold red", Gate.AHEAD: "dim", Gate.PAST: "dim"}
EVIDENCE_ROWS = 5
OUTCOME = 9
LONGEST_NAME = 29


def print_report(report: Report, console: Console, calls: Calls) -> None:
    info = report.database
    known = f"{info.dialect} {info.server_version}  revision {info.revision or 'base'} of {info.head}"
    gap = "  " if len(info.url) + len(known) + 2 <= console.width or not console.is_terminal else "\n"
    console.print(Text(f"{info.url}{gap}{known}", "dim"), soft_wrap=not console.is_terminal)
    for runbook, phase in report.phases():
        console.print(_phase(runbook, phase, console.width))
    counts = report.summary()
    summary = Text("\n")
    for name, number in counts.items():
        if number:
            summary.append(f"{number} {name}  ", STYLES[name])
    summary.append(took(report.duration_ms), "dim")
    console.print(summary)
    console.print(Text(closing_line(report, calls), "bold green" if report.ok else "bold red"))


def _phase(runbook: RunbookReport, phase: PhaseReport, width: int) -> RenderableType:
    title = Text(f"\n{runbook.name}/{phase.name} ", "bold").append(str(phase.gate), GATES[phase.gate])
    if phase.gate in WORDS:
        return title.append(WORDS[phase.gate], "dim")
    parts: list[RenderableType] = [title]
    names = min(max((len(verdict.check_id) for verdict in phase.checks), default=0), LONGEST_NAME) + 1
    for verdict in phase.checks:
        parts.append(_row(verdict, names, width))
        if verdict.evidence:
            table = rows_table(verdict.evidence, width - 4, most=EVIDENCE_ROWS, total=verdict.evidence_rows)
            parts.append(Padding(table, (0, 0, 0, 4)))
    return Group(*parts)


def _row(verdict: Verdict, names: int, width: int) -> Table:
    """Outcome, check and message beside each other; a message that has no room there stands below, unbroken."""
    name = "warned" if verdict.warned else str(verdict.outcome)
    outcome = Text(f"  {name}", STYLES[name])
    check = Text(verdict.check_id, "dim" if name == "skipped" else "")
    said = _said(verdict)
    row = Table.grid(padding=(0, 1))
    row.add_column(width=OUTCOME)
    if max(line.cell_len for line in said.split("\n")) > width - OUTCOME - names - 2:
        row.add_column(overflow="fold")
        row.add_row(outcome, check)
        row.add_row("", Padding(said, (0, 0, 0, 2)))
        return row
    row.add_column(width=names, overflow="fold")
    row.add_column(overflow="fold")
    row.add_row(outcome, check, said)
    return row


def _said(verdict: Verdict) -> Text:
    said = Text(plain(_without_first_row(verdict)))
    if verdict.outcome is not Outcome.PASSED:
        said.stylize("" if verdict.went_wrong else "dim")
    if verdict.duration_ms >= SLOW_MS:
        said.append(f" ({took(verdict.duration_ms)})", "dim")
    if verdict.went_wrong:
        said.append(f"\n{verdict.source}", "dim")
    return said


def _without_first_row(verdict: Verdict) -> str:
    """Return the message without the row that it quotes, where that row is shown below it."""
    rows, end = many(verdict.evidence_rows, "row"), f"required {verdict.require}"
    quotes = verdict.message.startswith(f"{rows}, first: ") and verdict.message.endswith(f"; {end}")
    return f"{rows}, {end}" if verdict.evidence and quotes else verdict.message
