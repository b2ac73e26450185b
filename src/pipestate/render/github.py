"""GitHub Actions: an annotation at the runbook's line for each failure, and a step summary."""

import os
from pathlib import Path

from pipestate.chain.calls import Calls
from pipestate.render.markdown import as_markdown
from pipestate.render.text import closing_line
from pipestate.safe import github, github_property
from pipestate.verify.report import Report
from pipestate.verify.verdict import Verdict


def as_github(report: Report, calls: Calls) -> str:
    """Workflow commands for stdout; the summary goes where the runner says."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(as_markdown(report, calls) + "\n")
    lines = [_annotation(verdict) for verdict in report.verdicts() if verdict.went_wrong]
    return "\n".join([*lines, closing_line(report, calls)])


def _annotation(verdict: Verdict) -> str:
    kind = "warning" if verdict.warned else "error"
    path, _, line = verdict.source.rpartition(":")
    place = f"file={github_property(path)},line={line},title={github_property(verdict.check_id)}"
    return f"::{kind} {place}::{github(verdict.message)}"
