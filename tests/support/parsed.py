"""A runbook from its text, or its first fault as an error."""

from pathlib import Path

from pipestate.runbook.model import Runbook
from pipestate.runbook.parse import collect


def parse(text: str, path: str | Path, variants: str | None = None) -> Runbook:
    runbook, findings = collect(text, path, variants)
    if findings or runbook is None:
        raise findings[0].error()
    return runbook
