"""Runbooks for tests: one phase `ready`, whose body a test writes."""

from collections.abc import Callable

import pytest

from pipestate.runbook.lint import findings
from pipestate.runbook.model import Phase
from support.parsed import parse

FRONT = """---
runbook: sample
phases:
  ready:
---

## Phase: ready

"""
GOOD = """

```sql
-- check: good
-- require: n = 1
SELECT 1 AS n;
```
"""
BODY_LINE = FRONT.count("\n") + 1

Told = list[tuple[int, str]]


@pytest.fixture
def findings_in() -> Callable[[str], Told]:
    """What lint finds in the body of a phase, with lines counted from the body's first."""

    def lint_body(body: str) -> Told:
        found = findings(FRONT + body + GOOD, "sample.md")
        return [(finding.line - BODY_LINE + 1, finding.message) for finding in found]

    return lint_body


@pytest.fixture
def findings_of() -> Callable[[str], Told]:
    """What lint finds in a whole file."""

    def lint_file(text: str) -> Told:
        return [(finding.line, finding.message) for finding in findings(text, "sample.md")]

    return lint_file


@pytest.fixture
def findings_beside() -> Callable[[str, str], list[str]]:
    """What lint finds in a phase's body and its variants beside the page: `path:line: message`, as printed."""

    def lint_both(body: str, variants: str) -> list[str]:
        return [str(finding) for finding in findings(FRONT + body + GOOD, "sample.md", variants)]

    return lint_both


@pytest.fixture
def phase_of() -> Callable[[str], Phase]:
    """The phase with this body."""

    def parse_body(body: str) -> Phase:
        return parse(FRONT + body, "sample.md").phases[0]

    return parse_body
