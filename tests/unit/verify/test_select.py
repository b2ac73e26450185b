"""Sign-offs in words."""

from datetime import timedelta

import pytest

from pipestate.runbook.model import SignOff
from pipestate.verify.judge import Judgement
from pipestate.verify.report import Outcome
from pipestate.verify.select import explain_signoff


@pytest.mark.parametrize(
    ("days", "people", "outcome", "said"),
    [
        (7, 1, Outcome.PASSED, "signed off within 7d"),
        (7, 2, Outcome.FAILED, "signed off by 0 of 2 people within 7d: pipestate attest a/b/c --by YOU"),
        (3650, 1, Outcome.PASSED, "signed off"),
        (3650, 1, Outcome.FAILED, "not signed off: pipestate attest a/b/c --by YOU"),
    ],
)
def test_a_validity_of_ten_years_is_not_written(days: int, people: int, outcome: Outcome, said: str) -> None:
    signoff = SignOff("c", 1, timedelta(days=days), "It is done.", people)
    judged = explain_signoff(signoff, Judgement(outcome, {"people": 0}, ""), runbook="a", phase="b")
    assert judged.message == said
