from collections.abc import Callable

import pytest

from pipestate.runbook.model import Check, Evidence, Phase

Lint = Callable[[str], list[tuple[int, str]]]


def check(id: str, require: str = "n = 1") -> str:
    return _fence(f"-- check: {id}", f"-- require: {require}")


def evidence(id: str) -> str:
    return _fence(f"-- explains: {id}", "")


def view(id: str) -> str:
    return _fence(f"-- view: {id}", "")


def signoff(id: str) -> str:
    return f"- [ ] `{id}` (24h): word\n\n\n\n\n"


def _fence(first: str, second: str) -> str:
    """Five lines, whatever is in it; no two with the same SQL."""
    return "\n".join(["```sql", first, second, f"SELECT '{first}';", "```", ""])


@pytest.mark.parametrize(
    "body", [check("a") + evidence("a"), evidence("a") + check("a"), check("a") + view("b") + signoff("c")]
)
def test_parts_that_belong_together_are_a_phase(body: str, findings_in: Lint) -> None:
    assert findings_in(body) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (check("a") + check("a"), "id a appears twice in one phase, first on line 9: keep one"),
        (view("a") + view("a"), "id a appears twice in one phase"),
        (signoff("a") + signoff("a"), "id a appears twice in one phase"),
        (check("a") + signoff("a"), "id a appears twice in one phase"),
        (check("a") + view("a"), "id a appears twice in one phase"),
        (check("a") + evidence("b"), "explains b, which is no check of this phase; there are a, good"),
        (signoff("a") + evidence("a"), "explains a, which is no check of this phase; there are good"),
    ],
)
def test_what_clashes_in_one_phase_is_reported_at_the_second(
    body: str, message: str, findings_in: Lint
) -> None:
    [(line, reported)] = findings_in(body)

    assert line == 6
    assert message in reported


def test_evidence_twice_is_reported(findings_in: Lint) -> None:
    [(line, reported)] = findings_in(check("a") + evidence("a") + evidence("a"))

    assert line == 11
    assert reported == "evidence for a appears twice in one phase, first on line 14: keep one"


def test_evidence_may_be_that_of_several_checks(phase_of: Callable[[str], Phase], findings_in: Lint) -> None:
    body = check("a") + check("b") + evidence("a, b")
    shared = (Evidence(("a", "b"), 19, "SELECT '-- explains: a, b'", block="sample.md:19"),)

    assert [check.evidence for check in phase_of(body).checks if isinstance(check, Check)] == [shared, shared]
    [(line, reported)] = findings_in(body.replace("a, b", "a, c"))
    assert (line, reported.partition(";")[0]) == (11, "explains c, which is no check of this phase")


OWN_ROWS = ["rows = 0", "rows <= 5", "rows < 3", "rows != 1", "rows >= 1 and rows <= 9"]


@pytest.mark.parametrize("require", OWN_ROWS)
def test_a_check_that_shows_its_own_rows_needs_no_evidence(require: str, findings_in: Lint) -> None:
    [(line, reported)] = findings_in(check("a", require) + evidence("a"))

    assert line == 6
    assert reported.startswith(
        f"explains a, but a check that requires `{require}` shows its own rows: take this block"
    )


@pytest.mark.parametrize("require", ["rows >= 1", "rows > 0", "rows = 1 and n = 1", "n = 1"])
def test_a_check_whose_own_rows_say_little_may_have_evidence(require: str, findings_in: Lint) -> None:
    assert findings_in(check("a", require) + evidence("a")) == []


def test_one_id_may_stand_in_two_phases(findings_of: Lint) -> None:
    text = "---\nrunbook: sample\nphases: {one: , two: }\n---\n## Phase: one\n\n" + check("a")

    assert findings_of(text + "\n## Phase: two\n\n" + check("a").replace("SELECT", "SELECT 2,")) == []


@pytest.mark.parametrize("body", ["", "Only text.\n", "```sql\nSELECT 1\n```\n", view("a")])
def test_a_phase_that_checks_nothing_is_reported(body: str, findings_of: Lint) -> None:
    text = f"---\nrunbook: sample\nphases:\n  one:\n---\n\n## Phase: one\n\n{body}"

    assert findings_of(text) == [
        (7, "phase one checks nothing: give it a check or a sign-off, or make it a heading without `Phase:`")
    ]


def test_a_gate_that_nothing_could_close_is_reported(findings_of: Lint) -> None:
    warning = check("a", "n = 1\n-- level: warn")
    text = "---\nrunbook: sample\nphases:\n  one: {opens: ['0006']}\n---\n\n## Phase: one\n\n"

    assert findings_of(text + warning) == [
        (7, "phase one opens 0006 but has no blocking check: its gate could never open")
    ]
    assert findings_of(text + warning + signoff("b")) == []
