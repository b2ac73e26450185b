"""Formats of `verify` for CI: annotations of GitHub Actions, Markdown, and JUnit XML."""

import os
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from pipestate.cli.formats.json import instant
from pipestate.cli.formats.layout import more_rows
from pipestate.cli.formats.verify import closing_line, evidence_lines
from pipestate.core.text import github, github_property, markdown, markdown_code, plain_lines
from pipestate.project.find import Calls
from pipestate.verify.report import Outcome, PhaseReport, Report, RunbookReport, Verdict, count

MARKS = {"passed": "✅", "failed": "❌", "errored": "💥", "skipped": "➖"}


def as_github(report: Report, calls: Calls) -> str:
    """Return workflow commands for stdout; append the summary to the runner's file."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(as_markdown(report, calls) + "\n")
    lines = []
    for verdict in (each for each in report.verdicts() if each.went_wrong):
        kind = "warning" if verdict.warned else "error"
        path, _, line = verdict.source.rpartition(":")
        place = f"file={github_property(path)},line={line},title={github_property(verdict.check_id)}"
        lines.append(f"::{kind} {place}::{github(verdict.message)}")
    return "\n".join([*lines, closing_line(report, calls)])


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


def as_junit(report: Report) -> str:
    root = ET.Element("testsuites", name="pipestate verify", time=_seconds(report.duration_ms))
    for runbook, phase in report.phases():
        root.append(_suite(report, runbook, phase))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _suite(report: Report, runbook: RunbookReport, phase: PhaseReport) -> ET.Element:
    counts = count(phase.checks)
    suite = ET.Element(
        "testsuite",
        name=f"{runbook.name}/{phase.name}",
        tests=str(len(phase.checks)),
        failures=str(counts["failed"]),
        errors=str(counts["errored"]),
        skipped=str(counts["skipped"] + counts["warned"]),
        time=_seconds(sum(verdict.duration_ms for verdict in phase.checks)),
        timestamp=instant(report.started_at).removesuffix("Z"),
    )
    suite.extend(_case(runbook, phase, verdict) for verdict in phase.checks)
    return suite


def _case(runbook: RunbookReport, phase: PhaseReport, verdict: Verdict) -> ET.Element:
    path, _, line = verdict.source.rpartition(":")
    case = ET.Element(
        "testcase",
        classname=f"{runbook.name}.{phase.name}",
        name=verdict.check_id,
        file=path,
        line=line,
        time=_seconds(verdict.duration_ms),
    )
    message = plain_lines(verdict.message)
    if verdict.outcome is Outcome.SKIPPED or verdict.warned:
        ET.SubElement(case, "skipped", message=f"warning: {message}" if verdict.warned else message)
    elif verdict.went_wrong:
        kind = "failure" if verdict.outcome is Outcome.FAILED else "error"
        element = ET.SubElement(case, kind, message=message, type=str(verdict.outcome))
        element.text = plain_lines(
            "\n".join([f"required: {verdict.require}", verdict.source, *evidence_lines(verdict)])
        )
    return case


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3f}"
