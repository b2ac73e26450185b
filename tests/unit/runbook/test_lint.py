from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipestate.core.errors import ConfigError, RunbookError
from pipestate.runbook.lint import examine, findings, load
from pipestate.runbook.model import Finding
from support.long_form import times

Lint = Callable[[str], list[tuple[int, str]]]

FRONT = "---\nrunbook: s\nphases: {ready: }\n---\n## Phase: ready\n\n"


def fence(*lines: str) -> str:
    """A block; its SQL, if there is any, gets the semicolon that it needs."""
    end = "" if lines[-1].startswith("--") or lines[-1].endswith(";") else ";"
    return "\n".join(["```sql", *lines[:-1], lines[-1] + end, "```", ""])


GOOD = fence("-- check: a", "-- require: rows = 0", "SELECT 1 WHERE false;")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write_runbook(text: str) -> Path:
        path = tmp_path / "s.md"
        path.write_text(text, encoding="utf-8")
        return path

    return write_runbook


def test_a_good_runbook_has_no_findings_and_may_be_run(write: Callable[[str], Path]) -> None:
    path = write(FRONT + GOOD)

    assert examine(path)[1] == []
    assert load(path).name == "s"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["-- check: b", "-- require: c = 1", "DELETE FROM a"],
            "check b: begins with DELETE, not with a plain read: begin with SELECT, WITH or VALUES",
        ),
        (
            ["-- check: b", "-- require: c = 1", "SELECT 1; COMMIT; DROP TABLE a"],
            "check b: 3 statements in one block",
        ),
        (["-- check: b", "-- require: c = 1"], "check b: there is no SQL in the block"),
        (["-- check: b", "-- require: c = 1", "-- a comment", ";"], "check b: there is no SQL in the block"),
        (["-- view: b", "SELECT * INTO c FROM a"], "view b: writes INTO a table"),
        (["-- explains: good", "SELECT nextval('a')"], "evidence for good: calls nextval()"),
        (
            ["-- view: b", "-- dialect: postgresql", "SELECT $$ ;"],
            "view b: a quote or a comment is never closed",
        ),
        (["-- view: b", "PRAGMA user_version"], "view b: begins with PRAGMA"),
        (
            ["-- check: b", "-- require: rows = 1", "EXPLAIN SELECT 1"],
            "check b: a query plan cannot be compared: make the EXPLAIN evidence or a view",
        ),
    ],
)
def test_sql_that_is_no_plain_read_is_reported_at_its_fence(
    lines: list[str], message: str, findings_in: Lint
) -> None:
    [(line, reported)] = findings_in("Text.\n\n" + fence(*lines))

    assert line == 3
    assert reported.startswith(message)


@pytest.mark.parametrize(
    "lines",
    [
        ["-- explains: good", "EXPLAIN SELECT 1"],
        ["-- view: b", "EXPLAIN SELECT 1"],
    ],
)
def test_a_plan_may_be_looked_at(lines: list[str], findings_in: Lint) -> None:
    assert findings_in(fence(*lines)) == []


def test_sqlites_plan_may_be_a_check(findings_beside: Callable[[str, str], list[str]]) -> None:
    page = fence("-- check: b", "-- dialect: postgresql", "-- require: c = 1", "SELECT 1 AS c")
    plan = fence("-- check: b", "-- require: detail = 'SCAN a'", "EXPLAIN QUERY PLAN SELECT * FROM a")

    assert findings_beside(page, f"## Phase: ready\n\n{plan}") == []


def test_evidence_of_two_checks_is_reported_once(findings_in: Lint) -> None:
    body = fence("-- check: b", "-- require: n = 1", "SELECT 2 AS n")

    assert len(findings_in(body + fence("-- explains: b, good", "VACUUM"))) == 1


def test_every_fault_is_reported_in_the_order_of_the_lines() -> None:
    body = fence("-- check: a", "-- requires: rows = 0", "DROP TABLE a") + fence("-- explains: b", "SELECT 1")
    found = findings(FRONT + body, "s.md")

    assert found == sorted(found)
    assert [str(finding).split(": ", 1)[0] for finding in found] == ["s.md:7", "s.md:7", "s.md:7", "s.md:12"]


def test_load_tells_the_first_and_where_to_hear_the_others(write: Callable[[str], Path]) -> None:
    path = write(FRONT + fence("-- check: a", "DROP TABLE a"))
    with pytest.raises(RunbookError) as caught:
        load(path)

    assert caught.value.line == 7
    assert str(caught.value).endswith(f"(1 more: pipestate runbook lint {path})")


def test_load_refuses_what_only_lint_sees(write: Callable[[str], Path]) -> None:
    path = write(FRONT + GOOD.replace("WHERE false", "; COMMIT"))

    with pytest.raises(RunbookError, match=r"s\.md:7: check a: 2 statements in one block"):
        load(path)


def test_a_file_that_is_not_utf8_is_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "s.md"
    path.write_bytes(b"---\n\xff")

    assert examine(path)[1] == [Finding(str(path), 2, "not UTF-8 (byte 0xff): save the file as UTF-8")]


def test_a_file_that_is_not_there_is_a_matter_of_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        examine(tmp_path / "none.md")[1]


WORDS = [
    *("---\n", "runbook: a\n", "phases:\n", "  b: {from: 3}\n", "## Phase: b\n", "## Phase: \n", "# T\n"),
    *("```sql\n", "```\n", "~~~\n", "-- check: a\n", "-- require: rows = 0\n", "-- explains: a\n", "\n"),
    *("SELECT 1;", "'", '"', "/*", "<!--", "-->", "- [ ] `a` (1h): b\n", "-- x: y\n", "> ", "    ", "- "),
    *(
        "- again: `b/a`",
        ", requires `n = 0`",
        ", over `2 days`",
        "-- window: 1 day\n",
        "-- dialect: postgresql\n",
    ),
    *(
        "'1 day' ",
        "pipestate.latest_observation ",
        "age_seconds ",
        "now() ",
        "LIMIT 1 ",
        "(",
        ")",
        "`",
        ": why\n",
    ),
    *("\t", "\0", "\r"),
]


def test_a_page_that_was_changed_is_read_anew(write: Callable[[str], Path]) -> None:
    """What was examined is remembered by its text, not by its path."""
    first = load(write(FRONT + GOOD))
    assert load(write(FRONT + GOOD)) is first
    assert load(write(FRONT + GOOD.replace("check: a", "check: b"))).phases[0].checks[0].id == "b"
    with pytest.raises(RunbookError):
        load(write(FRONT))


RANDOM = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=5)), max_size=40).map("".join)
# What is likely to come further than the front matter.
BEGUN = RANDOM.map(lambda text: f"---\nrunbook: s\nphases: {{a: , b: }}\n---\n## Phase: a\n\n{text}")


@settings(deadline=None, max_examples=times(200, long=2000))
@given(st.one_of(RANDOM, BEGUN), st.one_of(st.none(), RANDOM))
def test_whatever_is_in_the_files_lint_answers_with_findings(text: str, variants: str | None) -> None:
    sizes = {"s.md": _lines(text), "s.sqlite.md": _lines(variants or "")}
    for finding in findings(text, "s.md", variants):
        assert 1 <= finding.line <= sizes[finding.path]
        assert finding.message


def _lines(text: str) -> int:
    return text.count("\n") + text.count("\r") + 1
