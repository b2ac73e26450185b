"""A verdict shows the first of the rows that are the fault themselves."""

from collections.abc import Sequence

import pytest

from pipestate.plan.compile import CompiledCheck
from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.model import Check
from pipestate.runbook.parse import collect
from pipestate.verify.checks import SelectedCheck
from pipestate.verify.read import CheckAnswer, QueryResult
from pipestate.verify.report import Outcome, Verdict
from pipestate.verify.run import judged
from support.runbook_samples import block, page


def verdict(columns: Sequence[str], row: Sequence[object], total: int) -> Verdict:
    runbook, _ = collect(page(block("SELECT 1 AS a", require="rows = 0")), "book.md")
    assert runbook is not None
    check = Check("c", 1, "SELECT 1 AS a", parse_requirement("rows = 0"))
    answer = CheckAnswer(Outcome.FAILED, f"rows is {total}, required = 0", total, {"rows": total})
    compiled = CompiledCheck("", "", "", counts_rows=True, shows_own_rows=True)
    rows = QueryResult(tuple(columns), (tuple(row),), 1)
    return judged(SelectedCheck(runbook, runbook.phases[0], check, None), compiled, answer, rows)


@pytest.mark.parametrize(
    ("columns", "row", "reported"),
    [
        ("fault", ("no index",), "'no index'"),
        ("id written_by", (7, "ann"), "id 7, written_by 'ann'"),
        ("id written_by", (7, None), "id 7"),
        ("id", (None,), "NULL"),
        ("id note", (7, "a\nb\x1b[2J"), r"id 7, note 'a\nb\x1b[2J'"),
    ],
)
def test_too_many_rows_are_reported_with_their_number_and_the_first(
    columns: str, row: tuple[object, ...], reported: str
) -> None:
    found = verdict(columns.split(), row, 1234)
    assert found.message == f"1,234 rows, first: {reported}; required rows = 0"
    assert (found.observed, found.evidence_rows) == ({"rows": 1234}, 1234)


def test_a_long_first_row_is_cut() -> None:
    message = verdict([f"column{number}" for number in range(50)], ("x" * 60,) * 50, 2).message
    assert len(message) < 300
    assert message.endswith("…; required rows = 0")


def test_the_one_row_is_observed_beside_its_count() -> None:
    assert verdict(["a"], ["site-1"], 1).observed == {"rows": 1, "a": "site-1"}
