from collections.abc import Callable

import pytest

from pipestate.runbook.model import Check, Evidence, Phase

Lint = Callable[[str], list[tuple[int, str]]]


def check(id: str, dialect: str = "") -> str:
    return _fence(f"-- check: {id}", "-- require: n = 1", dialect)


def evidence(id: str, dialect: str = "") -> str:
    return _fence(f"-- explains: {id}", "", dialect)


def view(id: str, dialect: str = "") -> str:
    return _fence(f"-- view: {id}", "", dialect)


def signoff(id: str) -> str:
    return f"- [ ] `{id}` (24h): word\n\n\n\n\n\n"


def _fence(first: str, second: str, dialect: str) -> str:
    """Six lines, whatever is in it."""
    return "\n".join(
        ["```sql", first, second, f"-- dialect: {dialect}" if dialect else "", "SELECT 1", "```", ""]
    )


@pytest.mark.parametrize(
    "body",
    [
        check("a", "postgresql") + check("a", "sqlite"),
        check("a") + check("a", "sqlite"),
        check("a", "sqlite") + check("a") + check("a", "postgresql"),
        check("a") + evidence("a", "postgresql") + evidence("a", "sqlite"),
        evidence("a") + check("a") + evidence("a", "sqlite"),
        view("a", "postgresql") + view("a", "sqlite"),
        check("a", "sqlite") + evidence("a"),
    ],
)
def test_blocks_with_one_id_and_different_dialects_are_variants(body: str, findings_in: Lint) -> None:
    assert findings_in(body) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (check("a") + check("a"), "id a stands twice in one phase, first on line 9: give it another id"),
        (check("a", "sqlite") + check("a", "sqlite"), "id a stands twice in one phase"),
        (view("a") + view("a"), "id a stands twice in one phase"),
        (signoff("a") + signoff("a"), "id a stands twice in one phase"),
        (check("a") + signoff("a"), "id a stands twice in one phase"),
        (check("a") + view("a", "sqlite"), "id a stands twice in one phase"),
        (check("a") + evidence("b"), "explains b, which is no check of this phase: its checks are a, good"),
        (signoff("a") + evidence("a"), "explains a, which is no check of this phase: its checks are good"),
        (
            check("a", "postgresql") + evidence("a", "sqlite"),
            "explains a on sqlite, where that check does not run: take the block out",
        ),
    ],
)
def test_what_clashes_in_one_phase_is_told_at_the_second(body: str, message: str, findings_in: Lint) -> None:
    [(line, told)] = findings_in(body)

    assert line == 7
    assert message in told


def test_evidence_twice_for_one_engine_is_told(findings_in: Lint) -> None:
    [(line, told)] = findings_in(check("a") + evidence("a") + evidence("a"))

    assert line == 13
    assert told.startswith("evidence for a stands twice in one phase, first on line 15")


def test_each_variant_gets_the_evidence_that_can_run_with_it(phase_of: Callable[[str], Phase]) -> None:
    body = check("a", "postgresql") + check("a", "sqlite") + evidence("a", "sqlite") + evidence("a")
    postgresql, sqlite = phase_of(body).checks

    assert isinstance(postgresql, Check)
    assert isinstance(sqlite, Check)
    assert [each.line for each in postgresql.evidence] == [27]
    assert sqlite.evidence == (Evidence(("a",), 21, "SELECT 1", "sqlite"), Evidence(("a",), 27, "SELECT 1"))
    assert sqlite.evidence_for("sqlite") == Evidence(("a",), 21, "SELECT 1", "sqlite")


def test_one_id_may_stand_in_two_phases(findings_of: Lint) -> None:
    text = "---\nrunbook: s\nphases: {one: , two: }\n---\n## Phase: one\n\n" + check("a")

    assert findings_of(text + "\n## Phase: two\n\n" + check("a")) == []


@pytest.mark.parametrize("body", ["", "Only text.\n", "```sql\nSELECT 1\n```\n", view("a")])
def test_a_phase_that_asks_nothing_is_told(body: str, findings_of: Lint) -> None:
    text = f"---\nrunbook: s\nphases:\n  one:\n---\n\n## Phase: one\n\n{body}"

    assert findings_of(text) == [
        (7, "phase one asks nothing: give it a check or a sign-off, or make it a heading without `Phase:`")
    ]


def test_a_gate_that_nothing_could_close_is_told(findings_of: Lint) -> None:
    warning = check("a").replace("n = 1", "n = 1\n-- level: warn")
    text = "---\nrunbook: s\nphases:\n  one: {opens: ['0006']}\n---\n\n## Phase: one\n\n"

    assert findings_of(text + warning) == [
        (7, "phase one opens 0006 but has no blocking check: its gate could never be closed")
    ]
    assert findings_of(text + warning + signoff("b")) == []


def test_evidence_may_be_that_of_several_checks(phase_of: Callable[[str], Phase], findings_in: Lint) -> None:
    body = check("a") + check("b") + evidence("a, b")
    shared = (Evidence(("a", "b"), 21, "SELECT 1"),)

    assert [check.evidence for check in phase_of(body).checks if isinstance(check, Check)] == [shared, shared]
    [(line, told)] = findings_in(body.replace("a, b", "a, c"))
    assert (line, told.partition(":")[0]) == (13, "explains c, which is no check of this phase")


@pytest.mark.parametrize(
    "require", ["rows = 0", "rows <= 5", "rows < 3", "rows != 1", "rows >= 1 and rows <= 9"]
)
def test_a_check_that_shows_its_own_rows_needs_no_evidence(require: str, findings_in: Lint) -> None:
    [(line, told)] = findings_in(check("a").replace("n = 1", require) + evidence("a"))

    assert line == 7
    assert told.startswith(
        f"explains a, which requires `{require}` and so shows its own rows: take this block"
    )


@pytest.mark.parametrize("require", ["rows >= 1", "rows > 0", "rows = 1 and n = 1", "n = 1"])
def test_a_check_whose_own_rows_say_little_may_have_evidence(require: str, findings_in: Lint) -> None:
    assert findings_in(check("a").replace("n = 1", require) + evidence("a")) == []
