from collections.abc import Callable

import pytest

from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.model import Check, Level, Phase, View

Lint = Callable[[str], list[tuple[int, str]]]


def fence(*lines: str) -> str:
    """A block; its SQL, if there is any, gets the semicolon that it needs."""
    end = "" if lines[-1].startswith("--") or lines[-1].endswith(";") else ";"
    return "\n".join(["```sql", *lines[:-1], lines[-1] + end, "```", ""])


def test_a_check_has_all_that_its_directives_say(phase_of: Callable[[str], Phase]) -> None:
    body = fence(
        "-- check: a",
        "-- require: b < 1.0",
        "-- window: 24 hours",
        "-- dialect: postgresql",
        "-- level: warn",
        "-- from: 0003",
        "-- until: 0006",
        "SELECT '24 hours' AS b",
        "FROM c;",
    )

    assert phase_of(body).checks == (
        Check(
            id="a",
            line=9,
            sql="SELECT '24 hours' AS b\nFROM c",
            require=parse_requirement("b < 1.0"),
            level=Level.WARN,
            dialect="postgresql",
            from_="0003",
            until="0006",
            window="24 hours",
            block="sample.md:9",
        ),
    )


def test_a_check_blocks_on_any_engine_unless_it_says_otherwise(phase_of: Callable[[str], Phase]) -> None:
    [check] = phase_of(fence("-- check: a", "-- require: rows = 0", "SELECT 1")).checks

    assert (check.level, check.dialect, check.from_, check.until) == (Level.BLOCK, None, None, None)


def test_a_view_may_be_narrower_than_its_phase(phase_of: Callable[[str], Phase]) -> None:
    check = fence("-- check: a", "-- require: rows = 0", "SELECT 1")
    view = fence("-- view: v", "-- until: 0006", "-- from: 0002", "-- dialect: postgresql", "SELECT 2")

    assert phase_of(check + view).views == (
        View("v", 14, "SELECT 2", "postgresql", "0002", "0006", "sample.md:14"),
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["-- check: a"], "check a has no criterion: add `-- require: rows = 0` or the like"),
        (
            ["-- check: a", "-- require: b ="],
            "`-- require: b =`: cannot read b =: a comparison is",
        ),
        (["-- check: a", "-- require: b = c"], "`-- require: b = c`: cannot read b = c:"),
        (["-- check: a", "-- require:"], "`-- require:` has no value: write it on the same line"),
        (["-- require: b = 1"], "`-- require:` without `-- check:`: name the check, as `-- check: its-id`"),
        (["-- dialect: sqlite"], "`-- dialect:` without `-- check:`"),
        (["-- check: a", "-- view: b", "-- require: c = 1"], "a block is one of check and view, not both"),
        (
            ["-- check: Stuck sites", "-- require: b = 1"],
            "`-- check: Stuck sites`: an id is lower-case letters",
        ),
        (["-- view: a_b"], "`-- view: a_b`: an id is lower-case letters"),
        (
            ["-- check: a", "-- require: b = 1", "-- dialect: mysql"],
            "`-- dialect: mysql`: write postgresql, where SQLite cannot hold this state, or nothing",
        ),
        (
            ["-- check: a", "-- require: b = 1", "-- dialect: sqlite"],
            "`-- dialect: sqlite`: move it into the file sample.sqlite.md, under the same `## Phase:` and id",
        ),
        (["-- check: a", "-- require: b = 1", "-- level: info"], "`-- level: info`: write block or warn"),
        (
            ["-- check: a", "-- require: b = 1", "-- window: 24h"],
            "`-- window: 24h`: write a number and a unit (seconds, minutes, hours or days), as 24 hours",
        ),
        (
            ["-- view: v", "-- window: 1 day"],
            "`-- window:` is not allowed in a block with `-- view:`: take the line out",
        ),
        (
            ["-- check: a", "-- require: b = 1", "-- from: 3 or 4"],
            "`-- from: 3 or 4`: write one revision, as ae10",
        ),
        (
            ["-- explains: good", "-- level: warn"],
            "`-- level:` is not allowed in a block with `-- explains:`: take the line out",
        ),
        (
            ["-- explains: good", "-- until: 0006"],
            "`-- until:` is not allowed in a block with `-- explains:`",
        ),
        (["-- view: v", "-- require: b = 1"], "`-- require:` is not allowed in a block with `-- view:`"),
    ],
)
def test_a_wrong_block_is_reported_at_its_fence(lines: list[str], message: str, findings_in: Lint) -> None:
    [(line, reported)] = findings_in("Text.\n\n" + fence(*lines, "SELECT '24h'"))

    assert line == 3
    assert message in reported


def test_evidence_of_a_faulty_check_is_no_second_fault(findings_in: Lint) -> None:
    reported = findings_in(fence("-- check: a", "SELECT 1") + fence("-- explains: a", "SELECT 2"))

    assert [line for line, _ in reported] == [1]


@pytest.mark.parametrize(
    "sql", ["SELECT 2 AS n", "SELECT 2 AS n -- the end;", "SELECT ';' AS n", "SELECT 2 AS n; /* */ --"]
)
def test_a_block_ends_with_the_semicolon_that_psql_waits_for(sql: str, findings_in: Lint) -> None:
    reported = findings_in(f"```sql\n-- check: a\n-- require: n = 1\n{sql}\n```\n")
    ends = "2 AS n;" in sql

    assert reported == (
        [] if ends else [(1, "the block does not end with a semicolon, so psql would wait for more: add it")]
    )
