"""JUnit XML: one suite a phase, one case a check."""

from xml.etree import ElementTree as ET

from pipestate.render.machine import instant
from pipestate.render.text import evidence_lines
from pipestate.safe import xml
from pipestate.verify.report import PhaseReport, Report, RunbookReport, count
from pipestate.verify.verdict import Outcome, Verdict


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
    message = xml(verdict.message)
    if verdict.outcome is Outcome.SKIPPED or verdict.warned:
        ET.SubElement(case, "skipped", message=f"warning: {message}" if verdict.warned else message)
    elif verdict.went_wrong:
        kind = "failure" if verdict.outcome is Outcome.FAILED else "error"
        element = ET.SubElement(case, kind, message=message, type=str(verdict.outcome))
        element.text = xml(
            "\n".join([f"required: {verdict.require}", verdict.source, *evidence_lines(verdict)])
        )
    return case


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.3f}"
