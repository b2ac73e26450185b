"""What the formats share: evidence in plain lines, the closing line."""

from pipestate.chain.calls import Calls
from pipestate.safe import plain
from pipestate.verify.report import Gate, Report
from pipestate.verify.verdict import Verdict


def evidence_lines(verdict: Verdict) -> list[str]:
    """`name=value` pairs, a row a line, and how many are not shown."""
    rows = [plain(", ".join(f"{name}={value}" for name, value in row.items())) for row in verdict.evidence]
    return rows + more_rows(verdict.evidence_rows, len(rows))


def took(milliseconds: float) -> str:
    """
    >>> took(80.4), took(3210)
    ('80 ms', '3.2 s')
    """
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def more_rows(total: int, shown: int) -> list[str]:
    """
    >>> more_rows(1244, 10), more_rows(3, 3)
    (['and 1,234 more'], [])
    """
    return [f"and {total - shown:,} more"] if total > shown else []


def closing_line(report: Report, calls: Calls) -> str:
    """Which gate is open, and what to do next."""
    if not report.ran:
        at = report.database.revision or "base"
        next_step = calls.pipestate("plan")
        return f"Nothing was checked: no phase applies at revision {at}. The next step: {next_step}"
    closed = [
        f"{runbook.name}/{phase.name}" for runbook, phase in report.phases() if phase.gate is Gate.CLOSED
    ]
    opened = [
        f"{runbook.name}/{phase.name}"
        for runbook, phase in report.phases()
        if phase.gate is Gate.OPEN and phase.opens
    ]
    if closed:
        return f"Closed: {', '.join(closed)}. Fix what failed, then verify again."
    if opened:
        upgrade = calls.alembic("upgrade head")
        return f"Open: {', '.join(opened)}. The revisions behind it may run: {upgrade}"
    return "All blocking checks passed."
