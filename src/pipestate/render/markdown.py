"""Markdown: a table a phase, evidence below; for tickets, pull requests and step summaries."""

from collections.abc import Iterator

from pipestate.chain.calls import Calls
from pipestate.render.machine import instant
from pipestate.render.text import closing_line, more_rows
from pipestate.safe import markdown, markdown_code
from pipestate.verify.report import PhaseReport, Report, RunbookReport
from pipestate.verify.verdict import Verdict

MARKS = {"passed": "✅", "failed": "❌", "errored": "💥", "skipped": "➖"}


def as_markdown(report: Report, calls: Calls) -> str:
    info = report.database
    head = f"# pipestate verify: {'ok' if report.ok else 'not ok'}"
    where = f"`{info.url}` at revision {info.revision or 'base'}, {instant(report.started_at)}"
    phases = [line for runbook, phase in report.phases() for line in _phase(runbook, phase)]
    return "\n".join([head, "", where, "", closing_line(report, calls), *phases])


def _phase(runbook: RunbookReport, phase: PhaseReport) -> Iterator[str]:
    yield from ("", f"## {runbook.name}/{phase.name}: {phase.gate}")
    ran = [verdict for verdict in phase.checks if verdict.outcome != "skipped"]
    if not ran:
        return
    yield from ("", "| | check | required | observed |", "|---|---|---|---|")
    for verdict in ran:
        mark = "⚠️" if verdict.warned else MARKS[str(verdict.outcome)]
        yield f"| {mark} | `{verdict.check_id}` | `{markdown_code(verdict.require)}` | {markdown(verdict.message)} |"
    for verdict in ran:
        if verdict.evidence:
            yield from _evidence(verdict)


def _evidence(verdict: Verdict) -> Iterator[str]:
    columns = list(verdict.evidence[0])
    yield from ("", f"**{verdict.check_id}**", "")
    yield "| " + " | ".join(markdown(column) for column in columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in verdict.evidence:
        yield "| " + " | ".join(markdown(str(row.get(column))) for column in columns) + " |"
    for more in more_rows(verdict.evidence_rows, len(verdict.evidence)):
        yield from ("", more)
