from collections.abc import Callable, Sequence

import pytest

from pipestate.runbook.lint import findings
from pipestate.runbook.model import Check, Level
from support.parsed import parse

Reported = list[tuple[int, str]]

FRONT = """---
runbook: s
phases: {one: , two: , three: }
---
## Phase: one

```sql
-- check: recent
-- level: warn
-- from: 0002
-- until: 0006
-- window: 24 hours
-- require: n = 0
SELECT count(*) AS n FROM t WHERE at > now() - interval '24 hours';
```

```sql
-- explains: recent
SELECT * FROM t WHERE at > now() - interval '24 hours';
```

```sql
-- check: plain
-- require: rows >= 1
SELECT id FROM t LIMIT 5;
```

- [ ] `signed` (24h): word

## Phase: two

"""
BESIDE = """## Phase: one

```sql
-- check: recent
SELECT count(*) AS n FROM t WHERE julianday(at) > julianday('now', '-24 hours');
```

```sql
-- explains: recent
SELECT * FROM t WHERE julianday(at) > julianday('now', '-24 hours');
```
"""
LINE = FRONT.count("\n") + 1
REST = """
- [ ] `again-signed` (24h): word

## Phase: three

- [ ] `signed` (24h): word

"""


def asked(item: str, *, beside: str | None = None) -> list[Check]:
    """The checks of phase two, whose only item this is."""
    phase = parse(FRONT + item + "\n" + REST, "s.md", beside).phases[1]
    return [check for check in phase.checks if isinstance(check, Check)]


def reported(item: str, *, rest: str = REST) -> Reported:
    """What lint finds, with lines counted from the item's."""
    found = findings(FRONT + item + "\n" + rest, "s.md")
    return [(finding.line - LINE + 1, finding.message) for finding in found]


def test_a_check_is_evaluated_once_more_with_all_that_its_block_says() -> None:
    first = parse(FRONT + REST, "s.md").phases[0].checks[0]
    (check,) = asked("- again: `one/recent`")

    assert isinstance(first, Check)
    assert (check.id, check.sql, check.require, check.evidence) == (
        "recent",
        first.sql,
        first.require,
        first.evidence,
    )
    assert (check.level, check.from_, check.until) == (Level.WARN, "0002", "0006")
    assert (check.line, check.block, check.again) == (LINE, "s.md:7", "one/recent")


@pytest.mark.parametrize(
    "item",
    [
        "- again: `one/recent`, requires `n <= 5`, over `48 hours`",
        "- again: `one/recent`, over `48 hours`, requires `n <= 5`",
        "- again: `one/recent`,\n  requires `n <= 5`,\n  over `48 hours`:\n  a week later it should be less",
        "* Again:  `one/recent` , requires `n <= 5`, over `48 hours` : because",
        "1. again: `one/recent`, requires ` n <= 5 `, over `48 hours`",
    ],
)
def test_another_criterion_and_another_length_combine(item: str) -> None:
    (check,) = asked(item)

    assert check.require.text == "n <= 5"
    assert check.sql == "SELECT count(*) AS n FROM t WHERE at > now() - interval '48 hours'"
    assert check.window == "48 hours"
    assert [each.sql for each in check.evidence] == ["SELECT * FROM t WHERE at > now() - interval '48 hours'"]
    assert reported(item) == []


def test_each_engine_s_variant_is_evaluated_again() -> None:
    postgresql, sqlite = asked("- again: `one/recent`, over `7 days`", beside=BESIDE)

    assert (postgresql.dialect, sqlite.dialect) == (None, "sqlite")
    assert sqlite.sql == "SELECT count(*) AS n FROM t WHERE julianday(at) > julianday('now', '-7 days')"
    assert (sqlite.line, sqlite.block) == (LINE, "s.sqlite.md:3")
    evidence = sqlite.evidence_for("sqlite")
    assert evidence is not None
    assert "'-7 days'" in evidence.sql


@pytest.mark.parametrize(
    ("item", "message"),
    [
        *(
            (
                f"- again: `{address}`",
                f"again {address}: no earlier phase has such a check; there are one/recent, one/plain",
            )
            for address in ("one/none", "three/recent", "nowhere/recent", "two/recent", "one/signed")
        ),
        (
            "- again: `one/plain`, over `2 days`",
            "again one/plain, over `2 days`: its block has no `-- window:` that",
        ),
        (
            "- again: `one/recent`, over `2d`",
            "again one/recent, over `2d`: write a number and a unit",
        ),
        (
            "- again: `one/recent`, requires `n = x`",
            "requires `n = x`: cannot read n = x:",
        ),
        (
            "- again: `one/plain`, requires `rows = 0`",
            "again one/plain: LIMIT hides rows from `rows = 0`: take it out",
        ),
    ],
)
def test_what_cannot_be_evaluated_again_is_reported(item: str, message: str) -> None:
    [(line, said)] = reported(item)

    assert line == 1
    assert said.startswith(message)


@pytest.mark.parametrize(
    "item",
    [
        "- again",
        "- again and again people forget this",
        "- Again: restart the workers",
        "- **again:** `one/recent`",
        "- again: one/recent",
        "- again: `recent`",
        "- again: `one/two/recent`",
        "- again `one/recent`",
        "- again: `one/recent` requires `n = 1`",
        "- again: `one/recent`, require `n = 1`",
        "- again: `one/recent`, requires n = 1",
        "- again: `one/recent`, requires `n = 1`, requires `n = 2`",
        "- again: `one/recent`, over `2 days` or so",
        "- again: `one/recent`:",
        "- again: `one/recent`, `one/plain`",
    ],
)
def test_an_item_that_begins_with_again_and_cannot_be_read_is_an_error(item: str) -> None:
    [(line, said)] = reported(item)

    assert line == 1
    assert said.startswith(
        "an item that begins with `again` repeats a check of an earlier phase: write `- again:"
    )


@pytest.mark.parametrize(
    "text", ["Again, nobody writes.", "- once again\n- against it", "The word again: `x`.", "1. Do it again"]
)
def test_prose_may_use_the_word(text: str) -> None:
    assert reported(text) == []


def test_a_paragraph_that_reads_like_an_item_is_reported() -> None:
    [(line, said)] = reported("Then\n\nagain: `one/recent`")

    assert line == 3
    assert said.startswith("`again:` is read only as a list item")


@pytest.mark.parametrize(
    ("items", "line"),
    [
        (["- again: `one/recent`", "- again: `one/recent`, over `2 days`"], 2),
        (
            [
                "```sql",
                "-- check: recent",
                "-- require: n = 0",
                "SELECT 0 AS n;",
                "```",
                "",
                "- again: `one/recent`",
            ],
            7,
        ),
        (["- [ ] `recent` (24h): word", "- again: `one/recent`"], 2),
    ],
)
def test_an_id_stands_once_in_a_phase(items: Sequence[str], line: int) -> None:
    [(at, said)] = reported("\n".join(items))

    assert at == line
    assert said == f"id recent appears twice in one phase, first on line {LINE}: keep one"


def test_the_phase_where_the_block_stands_is_named() -> None:
    rest = "\n## Phase: three\n\n- again: `two/recent`\n"
    [(_, said)] = reported("- again: `one/recent`", rest=rest)

    assert said.endswith("no earlier phase has such a check; there are one/recent, one/plain")


def test_evidence_stands_with_the_block(findings_of: Callable[[str], Reported]) -> None:
    [(_, said)] = reported("- again: `one/recent`\n\n```sql\n-- explains: recent\nSELECT 1;\n```\n")

    assert said == "explains recent, which is no check of this phase; there are none"


def test_a_phase_may_evaluate_nothing_but_what_was_evaluated_before() -> None:
    assert reported("- again: `one/recent`", rest="\n## Phase: three\n\n- again: `one/plain`\n") == []


@pytest.mark.parametrize(
    "sql", ["SELECT 1 AS n", "SELECT 1 AS n WHERE '124 hours' > ''", "SELECT 1 AS n -- '24 hours'"]
)
def test_a_window_must_stand_in_the_sql(sql: str, findings_in: Callable[[str], Reported]) -> None:
    body = (
        f"```sql\n-- check: a\n-- window: 24 hours\n-- require: n = 0\nSELECT 7, n FROM ({sql}\n) x;\n```\n"
    )
    [(line, said)] = findings_in(body)

    assert line == 1
    assert said.startswith("check a: `-- window: 24 hours` is not in a literal of its SQL")


def test_a_window_that_does_not_is_reported_where_the_block_stands_alone() -> None:
    page = (
        FRONT.replace("interval '24 hours'", "interval '1 day'")
        + "- again: `one/recent`, over `2 days`\n"
        + REST
    )
    found = [finding for finding in findings(page, "s.md") if "window" in finding.message]

    assert [finding.line for finding in found] == [7]


def test_a_window_must_stand_in_each_variant() -> None:
    beside = BESIDE.replace(
        "-- check: recent\nSELECT count(*) AS n FROM t WHERE julianday(at) > julianday('now', '-24 hours')",
        "-- check: recent\nSELECT 0 AS n",
    )
    found = [str(finding) for finding in findings(FRONT + REST + "- again: `one/recent`\n", "s.md", beside)]

    assert [
        said
        for said in found
        if said.startswith("s.sqlite.md:3: check recent: `-- window: 24 hours` is not in a")
    ]
