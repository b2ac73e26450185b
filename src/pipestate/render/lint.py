"""What `pipestate runbook lint --json` prints; `lint.schema.json` describes it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipestate.runbook.finding import Finding


def findings_as_data(pages: Sequence[Path], findings: Sequence[Finding]) -> dict[str, Any]:
    """Make plain data of the pages that were read and of what is wrong with them."""
    return {
        "schema_version": 1,
        "ok": not findings,
        "runbooks": [str(page) for page in pages],
        "findings": [{"path": each.path, "line": each.line, "message": each.message} for each in findings],
    }
