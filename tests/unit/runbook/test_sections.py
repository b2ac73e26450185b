from collections.abc import Callable

import pytest

from support.parsed import parse

Lint = Callable[[str], list[tuple[int, str]]]

FRONT = "---\nrunbook: sample\nphases:\n  one:\n  two:\n---\n"
CHECK = "\n```sql\n-- check: a\n-- require: rows = 0\nSELECT 1;\n```\n"
ONE, TWO = f"## Phase: one\n{CHECK}", f"## Phase: two\n{CHECK.replace('1', '2')}"
OTHER = CHECK.replace("1", "3")


def test_phases_come_in_the_order_of_the_file_with_the_line_of_their_heading() -> None:
    runbook = parse(
        FRONT + "# Title\n" + ONE + "### A step\n" + OTHER.replace(": a", ": b") + TWO, "sample.md"
    )

    assert [(phase.name, phase.line) for phase in runbook.phases] == [("one", 8), ("two", 22)]
    assert [check.id for check in runbook.phases[0].checks] == ["a", "b"]


def test_an_underlined_heading_is_a_phase_too() -> None:
    text = FRONT.replace("  two:\n", "") + f"Phase: one\n----------\n{CHECK}"

    assert [phase.line for phase in parse(text, "sample.md").phases] == [6]


@pytest.mark.parametrize("heading", ["# Part two", "## Rollback", "Rollback\n--------"])
def test_another_heading_ends_a_phase(heading: str, findings_of: Lint) -> None:
    reported = findings_of(FRONT + ONE + TWO + f"{heading}\n" + OTHER)

    assert [message for _, message in reported] == [
        "outside of any phase this never runs: move it below a `## Phase:` heading"
    ]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (ONE, 4, "`phases:` has one, two, the sections are one: make both the same"),
        (ONE + TWO + "## Phase: three\n" + OTHER, 4, "the sections are one, two, three: make both the same"),
        (ONE + TWO + ONE.replace("1", "3"), 21, "phase one appears twice, first on line 7: join the two"),
        (TWO + ONE, 4, "`phases:` has one, two, the sections are two, one: make both the same"),
        (
            ONE + TWO + "### Phase: three\n",
            21,
            "`Phase: three`: a phase begins with a heading `## Phase: its-name`",
        ),
        (ONE + TWO + "# Phase: three\n", 21, "a phase begins with a heading `## Phase: its-name`"),
        (ONE + TWO + "## phase : three\n", 21, "a phase begins with a heading `## Phase: its-name`"),
        (ONE + TWO + "> ## Phase: three\n", 21, "a phase begins with a heading `## Phase: its-name`"),
    ],
)
def test_a_wrong_phase_is_reported_with_its_line(
    text: str, line: int, message: str, findings_of: Lint
) -> None:
    [(at, reported)] = findings_of(FRONT + text)

    assert at == line
    assert message in reported


@pytest.mark.parametrize("name", ["", "Ready", "go on", "`one`", "*one*"])
def test_a_phase_has_a_name_that_can_be_typed(name: str, findings_of: Lint) -> None:
    reported = findings_of(FRONT + ONE + TWO + f"## Phase: {name}\n{OTHER}")

    assert reported == [(21, f"phase `{name}`: a name is lower-case letters, digits and hyphens")]


def test_headings_about_phases_are_prose(findings_of: Lint) -> None:
    assert findings_of(FRONT + ONE + TWO + "## Phase 1: what came before\n\n## Phases\n") == []
