import pytest

from pipestate.runbook.model import Level
from pipestate.verify.report import Outcome, Verdict


def make_verdict(outcome: Outcome, level: Level) -> Verdict:
    return Verdict("a", outcome, level, "rows = 0", {}, "", "s.md:1", 0.0)


@pytest.mark.parametrize(
    ("outcome", "level", "closes", "warned"),
    [
        ("passed", "block", False, False),
        ("passed", "warn", False, False),
        ("failed", "block", True, False),
        ("errored", "block", True, False),
        ("failed", "warn", False, True),
        ("errored", "warn", False, True),
        ("skipped", "block", False, False),
        ("skipped", "warn", False, False),
    ],
)
def test_only_what_went_wrong_closes_a_gate_or_warns(
    outcome: str, level: str, closes: bool, warned: bool
) -> None:
    verdict = make_verdict(Outcome(outcome), Level(level))

    assert (verdict.closes, verdict.warned) == (closes, warned)
