from collections.abc import Callable

import pytest

from pipestate.runbook.directives import has_directives, mentions_directives, read_directives
from pipestate.runbook.markdown import Fence
from pipestate.runbook.model import Findings


def read(content: str) -> tuple[dict[str, str] | None, str | None, list[str]]:
    found = Findings("s.md")
    directives = read_directives(Fence(7, "sql", content, closed=True), found)
    messages = [str(finding) for finding in found.in_order()]
    return (*directives, messages) if directives else (None, None, messages)


def test_leading_comments_are_directives_and_the_rest_is_sql() -> None:
    assert read("-- check: a\n-- require: b < 1\nSELECT b -- not: one\nFROM c\n") == (
        {"check": "a", "require": "b < 1"},
        "SELECT b -- not: one\nFROM c\n",
        [],
    )


@pytest.mark.parametrize(
    "line",
    ["--check:a", "-- check : a", "  --   Check: a  ", "-- CHECK:\ta", "--- check: a", "-- check: a\t"],
)
def test_spaces_and_case_do_not_matter(line: str) -> None:
    assert read(f"{line}\nSELECT 1")[0] == {"check": "a"}


def test_other_comments_and_blank_lines_may_stand_between() -> None:
    values, sql, messages = read(
        "\n-- A site stands still.\n-- check: a\n\n-- see https://x\n-- require: b = 1\nSELECT 1"
    )

    assert (values, sql, messages) == ({"check": "a", "require": "b = 1"}, "SELECT 1", [])


@pytest.mark.parametrize(
    "content",
    [
        "SELECT 1",
        "-- note: a free comment\nSELECT 1",
        "-- chek: a\nSELECT 1",
        "-- https://example.org\nSELECT 1",
        "-- Checks all sites\nSELECT 1",
        "",
        "SELECT 1 -- check: a",
        "SELECT '-- check: a'",
    ],
)
def test_a_block_without_any_of_our_directives_is_prose(content: str) -> None:
    assert read(content) == (None, None, [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "-- check: a\n-- requires: b = 1\nSELECT 1",
            "unknown directive `-- requires:`: did you mean `-- require:`?",
        ),
        (
            "-- chek: a\n-- require: b = 1\nSELECT 1",
            "unknown directive `-- chek:`: did you mean `-- check:`?",
        ),
        (
            "-- check: a\n-- note: b\nSELECT 1",
            "unknown directive `-- note:`: the directives are check, explains,",
        ),
        ("-- check: a\n-- check: b\nSELECT 1", "`-- check:` appears twice in one block: keep one of them"),
        (
            "-- require: a = 1\n-- require: b = 1\nSELECT 1",
            "`-- require:` appears twice in one block: join the two",
        ),
        ("-- check:\nSELECT 1", "`-- check:` has no value: write it on the same line"),
        (
            "-- check: a\nSELECT 1\n-- require: b = 1\n",
            "`-- require: b = 1` is below the SQL: move directives to the top",
        ),
        ("SET x = 1;\n-- check: a\nSELECT 1", "`-- check: a` is below the SQL: move directives to the top"),
        ("/* x */\n-- view: a\nSELECT 1", "`-- view: a` is below the SQL"),
    ],
)
def test_a_wrong_directive_is_reported(content: str, message: str) -> None:
    [reported] = read(content)[2]

    assert reported.startswith(f"s.md:7: {message}")


@pytest.mark.parametrize(("recognise", "late"), [(has_directives, False), (mentions_directives, True)])
def test_what_only_looks_like_a_block_of_ours_is_recognised(
    recognise: Callable[[str], bool], late: bool
) -> None:
    assert recognise("-- check: a\nSELECT 1")
    assert recognise("SELECT 1\n-- check: a") is late
    assert not recognise("-- a check\nSELECT 1")
