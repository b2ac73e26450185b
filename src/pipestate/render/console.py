"""The terminal: phases, a row a check with what was required and observed, evidence under failures."""

import re
from collections.abc import Mapping, Sequence

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pipestate.chain.calls import Calls
from pipestate.render.text import closing_line, more_rows
from pipestate.safe import plain
from pipestate.verify.report import Gate, PhaseReport, Report, RunbookReport
from pipestate.verify.values import Json
from pipestate.verify.verdict import Outcome, Verdict

STYLES = {
    "passed": "green",
    "failed": "bold red",
    "errored": "bold magenta",
    "skipped": "dim",
    "warned": "yellow",
}
GATES = {Gate.OPEN: "bold green", Gate.CLOSED: "bold red", Gate.AHEAD: "dim", Gate.PAST: "dim"}
MOST_COLUMNS = 8
NARROW = 80
EVIDENCE_ROWS = 5
# A moment to the second says enough to a person.
_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)\.\d+")


def print_report(report: Report, console: Console, calls: Calls) -> None:
    info = report.database
    console.print(
        Text(
            f"{info.url}  {info.dialect} {info.server_version}  revision {info.revision or 'base'} of {info.head}",
            "dim",
        ),
        soft_wrap=not console.is_terminal,
    )
    for runbook, phase in report.phases():
        console.print(_phase(runbook, phase, console.width))
    counts = report.summary()
    summary = Text("\n")
    for name, number in counts.items():
        if number:
            summary.append(f"{number} {name}  ", STYLES[name])
    summary.append(f"{report.duration_ms:.0f} ms", "dim")
    console.print(summary)
    console.print(Text(closing_line(report, calls), "bold green" if report.ok else "bold red"))


def _phase(runbook: RunbookReport, phase: PhaseReport, width: int) -> RenderableType:
    title = Text(f"\n{runbook.name}/{phase.name} ", "bold").append(str(phase.gate), GATES[phase.gate])
    if phase.gate in (Gate.AHEAD, Gate.PAST):
        return title
    parts: list[RenderableType] = [title]
    for verdict in phase.checks:
        parts.append(_row(verdict, narrow=width < NARROW))
        if verdict.evidence:
            table = evidence_table(
                verdict.evidence, width - 4, most=EVIDENCE_ROWS, total=verdict.evidence_rows
            )
            parts.append(Padding(table, (0, 0, 0, 4)))
    return Group(*parts)


def _row(verdict: Verdict, *, narrow: bool) -> Table:
    """Outcome, check and message beside each other; in a narrow terminal the message below."""
    name = "warned" if verdict.warned else str(verdict.outcome)
    outcome = Text(f"  {name}", STYLES[name])
    check = Text(verdict.check_id, "dim" if name == "skipped" else "")
    row = Table.grid(padding=(0, 1))
    row.add_column(width=9)
    if narrow:
        row.add_column(overflow="fold")
        row.add_row(outcome, check)
        row.add_row("", Padding(_said(verdict), (0, 0, 0, 2)))
        return row
    row.add_column(width=29, overflow="fold")
    row.add_column(overflow="fold")
    row.add_row(outcome, check, _said(verdict))
    return row


def _said(verdict: Verdict) -> Text:
    said = Text(plain(verdict.message))
    if verdict.outcome is not Outcome.PASSED:
        said.stylize("" if verdict.went_wrong else "dim")
    if verdict.went_wrong:
        said.append(f"\n{verdict.source}", "dim")
    return said


def evidence_table(
    rows: Sequence[Mapping[str, Json]], width: int, *, most: int | None = None, total: int = 0
) -> RenderableType:
    """The rows of a query: columns that hold something, as many as fit, each in one line.

    `total` is how many rows there are, where `rows` are only the first of them.
    """
    shown = rows[:most]
    columns = [name for name in (rows[0] if rows else ()) if any(row.get(name) is not None for row in shown)]
    fitting = fit([(name, [_value(row.get(name)).plain for row in shown]) for name in columns], width)
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in fitting:
        table.add_column(Text(plain(column)), no_wrap=True, overflow="ellipsis")
    for row in shown:
        table.add_row(*(_value(row.get(column)) for column in fitting))
    hint = f"; --json shows the first {len(rows)}" if len(rows) < total else ": --json shows them"
    return Group(
        table,
        *(
            Text(f"{more}{hint if len(shown) < len(rows) else ''}", "dim")
            for more in more_rows(max(total, len(rows)), len(shown))
        ),
    )


def fit(columns: Sequence[tuple[str, Sequence[str]]], width: int) -> list[str]:
    """The first columns that have room beside each other: at least one, and not too many.

    >>> fit([("customer", ["a.example.com"]), ("region", ["north"]), ("error", ["x" * 50])], 40)
    ['customer', 'region']
    """
    fitting: list[str] = []
    for name, values in columns[:MOST_COLUMNS]:
        width -= max(cell_len(text) for text in (name, *values)) + 2
        if fitting and width < -2:
            break
        fitting.append(name)
    return fitting


def _value(value: Json) -> Text:
    if value is None:
        return Text("NULL", "dim")
    return Text(plain(_FRACTION.sub(r"\1", str(value))))
