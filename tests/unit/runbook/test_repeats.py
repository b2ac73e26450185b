from collections.abc import Callable

import pytest

Lint = Callable[[str], list[tuple[int, str]]]

FRONT = "---\nrunbook: sample\nphases: {one: , two: }\n---\n## Phase: one\n\n"
TWO = "\n## Phase: two\n\n"


def fence(*lines: str) -> str:
    return "\n".join(["```sql", *lines, "```", ""])


def check(id: str, sql: str, require: str = "n = 0") -> str:
    return fence(f"-- check: {id}", f"-- require: {require}", sql)


ONE = check("a", "SELECT count(*) AS n FROM t;")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM t;",
        "select COUNT(*)\n  as n -- how many\nfrom  T;",
        "SELECT count ( * ) AS n FROM t ;",
    ],
)
def test_a_block_that_stands_twice_is_told_with_what_to_write(sql: str, findings_of: Lint) -> None:
    assert findings_of(FRONT + ONE + TWO + check("b", sql)) == [
        (15, "check b: the same SQL stands at sample.md:7: write `- again: `one/a`` instead")
    ]


def test_another_criterion_is_advised_with_it(findings_of: Lint) -> None:
    [(_, said)] = findings_of(FRONT + ONE + TWO + check("a", "SELECT count(*) AS n FROM t;", "n <= 5"))

    assert said.endswith("write `- again: `one/a`` instead, with `, requires `n <= 5``")


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        (
            ONE + check("b", "SELECT count(*) AS n FROM t;"),
            "make it one check, and join the two criteria with `and`",
        ),
        (
            ONE
            + check("b", "SELECT 3 AS n;")
            + fence("-- explains: a", "SELECT 2;")
            + fence("-- explains: b", "SELECT 2;"),
            "write it once, with `-- explains: a, b`",
        ),
        (ONE + fence("-- view: v", "SELECT 2;") + fence("-- view: w", "SELECT 2;"), "take this view out"),
        (
            ONE + fence("-- explains: a", "SELECT count(*) AS n FROM t;"),
            "require `rows = 0` of it, and the check shows",
        ),
    ],
)
def test_other_repetitions_are_told(body: str, advice: str, findings_in: Lint) -> None:
    [(_, said)] = findings_in(body)

    assert advice in said


def test_evidence_of_another_phase_is_brought_along_by_again(findings_of: Lint) -> None:
    evidence = fence("-- explains: a", "SELECT 2;")
    [(_, said)] = findings_of(FRONT + ONE + evidence + TWO + check("a", "SELECT 1 AS n;") + evidence)

    assert said.endswith("ask its check with `again:`, which brings the evidence of phase one along")


@pytest.mark.parametrize(
    "other",
    [
        check("b", "SELECT count(*) AS n FROM u;"),
        check("b", "SELECT count(*) AS n FROM t WHERE 'T' = 'x';")
        + check("c", "SELECT count(*) AS n FROM t WHERE 't' = 'x';"),
        fence("-- view: v", "SELECT count(*) AS n FROM t;"),
        fence("SELECT count(*) AS n FROM t;"),
    ],
)
def test_what_differs_or_is_shown_for_another_purpose_is_not(other: str, findings_in: Lint) -> None:
    assert findings_in(ONE + other) == []


def test_variants_are_compared_among_themselves(findings_beside: Callable[[str, str], list[str]]) -> None:
    page = check("a", "SELECT now() AS n;") + check("b", "SELECT now() + now() AS n;")
    beside = (
        "## Phase: ready\n\n"
        + fence("-- check: a", "SELECT 5 AS n;")
        + fence("-- check: b", "SELECT 5 AS n;")
    )
    [said] = findings_beside(page, beside)

    assert said.startswith(
        "sample.sqlite.md:7: check b: the same SQL stands at sample.sqlite.md:3: make it one check"
    )
