"""`soak: 7d` of a phase becomes a check on the records of another phase."""

from pathlib import Path

import pytest

from pipestate.runbook.model import Check, Phase
from pipestate.runbook.parse import collect
from support.runbook_samples import block, page

TWO = f"## Phase: two\n\n{block('SELECT 1 AS x', check='d')}"


def read(front: str, *more: str) -> tuple[Phase, list[str]]:
    text = page(block("SELECT 1 AS x"), *(more or (TWO,)), front=f"  one: {{}}\n  two: {front}\n")
    runbook, found = collect(text, Path("book.md"))
    assert runbook is not None
    return runbook.phases[-1], [f"{each.line}: {each.message}" for each in found]


def soak_of(phase: Phase) -> Check:
    (check,) = (each for each in phase.checks if each.id == "soak")
    assert isinstance(check, Check)
    return check


def test_the_phase_before_must_have_been_open_by_default() -> None:
    phase, found = read("{soak: 7d}")
    check = soak_of(phase)
    assert found == []
    assert (
        check.require.text == "days_open >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48"
    )
    assert "runbook = 'book' AND phase = 'one'" in check.sql
    assert check.block == "book.md:6"
    assert check.advice is not None
    assert "was recorded open, without a gap of more than 48 hours" in check.advice.text
    assert check.evidence_for("sqlite") is not None


def test_of_and_gap_are_taken() -> None:
    front = "{}\n  three: {soak: 36h, of: one, gap: 12h}"
    phase, found = read(front, TWO, "## Phase: three\n")
    assert found == []
    assert soak_of(phase).require.text.startswith("days_open >= 1.5 and longest_gap_hours <= 12 and")
    assert "phase = 'one'" in soak_of(phase).sql


@pytest.mark.parametrize(
    ("front", "message"),
    [
        ("{soak: a week}", "6: `soak: a week`: write a time, as 7d or 48h"),
        ("{soak: 0d}", "6: `soak: 0d`: write a time, as 7d or 48h"),
        ("{soak: 7d, gap: soon}", "6: `gap: soon`: write a time, as 7d or 48h"),
        ("{soak: 7d, of: three}", "6: `of: three` is no other phase of this runbook; there are one"),
        ("{soak: 7d, of: two}", "6: `of: two` is no other phase of this runbook; there are one"),
        ("{of: one}", "6: `of:` belongs to a `soak:`: write both, as soak: 7d"),
    ],
)
def test_a_faulty_soak_is_a_finding(front: str, message: str) -> None:
    assert message in read(front)[1]


def test_the_first_phase_must_name_another_one() -> None:
    text = page(block("SELECT 1 AS x"), front="  one: {soak: 7d}\n")
    _, found = collect(text, Path("book.md"))
    assert ["is the first, so its `soak:` needs `of:`" in each.message for each in found] == [True]


def test_a_check_of_that_name_stands_once() -> None:
    own = f"## Phase: two\n\n{block('SELECT 1 AS x', check='soak')}"
    assert any("id soak appears twice in one phase" in each for each in read("{soak: 7d}", own)[1])
