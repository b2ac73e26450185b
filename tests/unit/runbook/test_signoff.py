from collections.abc import Callable
from datetime import timedelta

import pytest

from pipestate.runbook.model import Phase, SignOff

Lint = Callable[[str], list[tuple[int, str]]]


def test_an_item_becomes_a_signoff_with_its_line(phase_of: Callable[[str], Phase]) -> None:
    phase = phase_of("Before:\n\n- [ ] `backup-taken` (24h): a backup\n  that *restores*\n")

    assert phase.checks == (SignOff("backup-taken", 11, timedelta(hours=24), "a backup that *restores*"),)


def test_it_may_want_several_people(phase_of: Callable[[str], Phase]) -> None:
    phase = phase_of(
        "- [ ] `a` (24h, 2 people): word\n- [ ] `b` (7d,  1  person): word\n- [ ] `c` (1h): word\n"
    )

    assert [signoff.people for signoff in phase.signoffs] == [2, 1, 1]


@pytest.mark.parametrize("marker", ["-", "*", "+", "1.", "- 1."])
def test_any_list_marker_will_do(marker: str, phase_of: Callable[[str], Phase]) -> None:
    assert [check.id for check in phase_of(f"{marker} [ ] `a` (7d): word\n").checks] == ["a"]


def test_nested_and_quoted_items_are_read_too(phase_of: Callable[[str], Phase]) -> None:
    phase = phase_of("- first\n  - [ ] `a` (30m): word\n\n> - [ ] `b` (30m): word\n")

    assert [(check.id, check.line) for check in phase.checks] == [("a", 10), ("b", 12)]


@pytest.mark.parametrize(
    ("text", "length"),
    [("30m", timedelta(minutes=30)), ("24h", timedelta(days=1)), (" 7d ", timedelta(days=7))],
)
def test_durations(text: str, length: timedelta, phase_of: Callable[[str], Phase]) -> None:
    assert [each.valid_for for each in phase_of(f"- [ ] `a` ({text}): word\n").signoffs] == [length]


@pytest.mark.parametrize(
    "text", ["", "24", "h", "0h", "-1h", "1.5h", "24 h", "1w", "1d12h", "9999999d", "٣h"]
)
def test_other_durations_are_refused(text: str, findings_in: Callable[[str], list[tuple[int, str]]]) -> None:
    [(_, said)] = findings_in(f"- [ ] `a` ({text}): word\n")
    assert said.endswith("write 30m, 24h or 7d")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            "- [ ] take a backup (24h)",
            "a task-list item in a phase is a sign-off: write `- [ ] `restore-tested` (24h)",
        ),
        ("- [ ] **`a`**: word", "a task-list item in a phase is a sign-off"),
        ("- [] `a` (24h): word", "a task-list item in a phase is a sign-off"),
        ("- [ ] a (24h): word", "a task-list item in a phase is a sign-off"),
        ("- [ ] `a`: word", "a task-list item in a phase is a sign-off"),
        ("- [ ] `a` (24h) word", "a task-list item in a phase is a sign-off"),
        ("- [ ] `a` (24h):", "a task-list item in a phase is a sign-off"),
        (
            "- [x] `a` (24h): word",
            "a ticked box is not a sign-off: leave it `[ ]` and record the sign-off with",
        ),
        ("- [X] `a` (24h): word", "`pipestate attest a --by WHO`"),
        ("- [ ] `A b` (24h): word", "sign-off `A b`: a name is lower-case letters, digits and hyphens"),
        ("- [ ] `a` (soon): word", "sign-off a is valid for (soon): write 30m, 24h or 7d"),
        ("- [ ] `a` (24h, two): word", "sign-off a is by (two): write how many, as (24h, 2 people)"),
        ("- [ ] `a` (24h, 0 people): word", "sign-off a is by (0 people): write how many"),
        ("- [ ] `a` (24h, ): word", "sign-off a is by (): write how many"),
        ("- [ ] `a` (24h, 2 people, now): word", "a task-list item in a phase is a sign-off"),
        ("- [ ] `a` (0h): word", "sign-off a is valid for (0h): write 30m, 24h or 7d"),
        ("- [ ] `a` (99999999999999d): word", "write 30m, 24h or 7d"),
    ],
)
def test_a_box_that_is_no_signoff_is_a_fault(item: str, message: str, findings_in: Lint) -> None:
    [(line, reported)] = findings_in(f"Before.\n\n{item}\n")

    assert line == 3
    assert message in reported


def test_a_box_without_a_name_is_prose(findings_in: Lint) -> None:
    assert findings_in("- [ ] remember the milk\n- [x] run `make lint`\n- [ ]\n") == []


def test_a_plain_list_is_prose(findings_in: Lint) -> None:
    assert findings_in("- stop the workers\n- [link](https://example.org)\n- [x](y)\n") == []
