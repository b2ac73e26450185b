"""What stands beside a page, for SQLite: `sample.sqlite.md`."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from pipestate.core.errors import RunbookError
from pipestate.runbook.files import without_page
from pipestate.runbook.lint import examine, load
from pipestate.runbook.model import Check, Phase
from support.parsed import parse

Beside = Callable[[str, str], list[str]]

FRONT = "---\nrunbook: sample\nphases:\n  ready:\n---\n\n## Phase: ready\n\n"
READY = "## Phase: ready\n\n"
OLD = "SELECT count(*) AS n FROM t WHERE at > now() - interval '1 day';"
OLD_LITE = "SELECT count(*) AS n FROM t WHERE julianday(at) > julianday('now', '-1 day');"


def fence(*lines: str) -> str:
    return "\n".join(["```sql", *lines, "```", ""])


def check(*more: str, sql: str = OLD) -> str:
    return fence("-- check: a", "-- require: n = 0", *more, sql)


def phase_of(body: str, beside: str) -> Phase:
    return parse(FRONT + body, "sample.md", beside).phases[0]


def test_a_variant_has_the_criterion_and_all_else_of_the_page() -> None:
    page = check("-- level: warn", "-- from: 0002", "-- until: 0006")
    phase = phase_of(page, READY + fence("-- check: a", OLD_LITE))
    (postgresql,), (sqlite,) = phase.checks_for("postgresql"), phase.checks_for("sqlite")

    assert isinstance(postgresql, Check)
    assert isinstance(sqlite, Check)
    assert (postgresql.sql, sqlite.sql) == (OLD[:-1], OLD_LITE[:-1])
    assert sqlite.require == postgresql.require
    assert (sqlite.level, sqlite.from_, sqlite.until) == ("warn", "0002", "0006")
    assert (postgresql.line, postgresql.block) == (9, "sample.md:9")
    assert (sqlite.line, sqlite.block) == (9, "sample.sqlite.md:3")


def test_a_block_that_reads_the_same_needs_none() -> None:
    phase = phase_of(check(sql="SELECT 0 AS n;"), "Nothing differs.\n")

    assert phase.checks_for("sqlite") == phase.checks_for("postgresql")


def test_what_sqlite_cannot_hold_is_not_evaluated_there() -> None:
    phase = phase_of(check("-- dialect: postgresql"), "Nothing differs.\n")

    assert [check.id for check in phase.checks_for("postgresql")] == ["a"]
    assert phase.checks_for("sqlite") == ()


def test_unless_it_has_a_criterion_of_its_own_there() -> None:
    beside = READY + fence("-- check: a", "-- require: rows = 3", "SELECT 1;")
    (sqlite,) = phase_of(check("-- dialect: postgresql"), beside).checks_for("sqlite")

    assert isinstance(sqlite, Check)
    assert (sqlite.require.text, sqlite.sql) == ("rows = 3", "SELECT 1")


def test_evidence_and_views_have_variants_too() -> None:
    page = check() + fence("-- explains: a", OLD) + fence("-- view: v", "-- until: 0006", OLD)
    beside = (
        READY
        + fence("-- check: a", OLD_LITE)
        + fence("-- explains: a", OLD_LITE)
        + fence("-- view: v", "SELECT 5;")
    )
    phase = phase_of(page, beside)
    (sqlite,) = phase.checks_for("sqlite")
    (view,) = phase.views_for("sqlite")

    assert isinstance(sqlite, Check)
    evidence = sqlite.evidence_for("sqlite")
    assert evidence is not None
    assert (evidence.sql, evidence.block) == (OLD_LITE[:-1], "sample.sqlite.md:7")
    assert (view.sql, view.until, view.block) == ("SELECT 5", "0006", "sample.sqlite.md:11")


FOUND = [
    (
        "-- check: b",
        "SELECT 1;",
        "3: check b has no block of that id in this phase of sample.md; there are a, good",
    ),
    (
        "-- view: v",
        "SELECT 1;",
        "3: view v has no block of that id in this phase of sample.md; there are none",
    ),
    ("-- explains: b", "SELECT 1;", "3: explains b, which is no check of this phase; there are a, good"),
    (
        "-- check: a\n-- require: n = 0",
        OLD_LITE,
        "3: check a has the criterion of the runbook, sample.md:9: take `-- require:`",
    ),
    (
        "-- check: a\n-- level: warn",
        OLD_LITE,
        "3: `-- level:` applies from the runbook, sample.md, to both engines: take it",
    ),
    (
        "-- check: a\n-- dialect: sqlite",
        OLD_LITE,
        "3: `-- dialect:` applies from the runbook, sample.md, to both engines",
    ),
    (
        "-- check: a\n-- window: 1 day",
        OLD_LITE,
        "3: `-- window:` applies from the runbook, sample.md, to both engines",
    ),
    ("-- check: a", OLD_LITE[:-1], "3: the block does not end with a semicolon"),
    ("-- check: a", "DELETE FROM t;", "3: check a: begins with DELETE"),
    ("-- check: a", OLD, "3: check a: SQLite does not know `now()`, `interval`"),
    ("-- explains: a, a", "SELECT 1;", "3: evidence for a appears twice in one phase: keep one of them"),
]


@pytest.mark.parametrize(("directives", "sql", "message"), FOUND)
def test_what_is_wrong_beside_the_page_is_reported_there(
    directives: str, sql: str, message: str, findings_beside: Beside
) -> None:
    beside = READY + fence(directives, sql)
    if not directives.startswith("-- check: a"):
        beside += fence("-- check: a", OLD_LITE)
    [said] = findings_beside(check(), beside)

    assert said.startswith(f"sample.sqlite.md:{message}")


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ("", "1: the file is empty: write the variants of sample.md here, or take it away"),
        ("## Phase: later\n\n", "1: sample.md has no phase later: its phases are ready"),
        ("---\nrunbook: b\n---\n", "1: the front matter belongs to the runbook, sample.md: take it out here"),
        (
            READY + "- [ ] `b` (24h): word\n",
            "3: sign-offs and `again:` belong to the runbook, sample.md: take it out",
        ),
        (
            READY + "- again: `one/a`\n",
            "3: sign-offs and `again:` belong to the runbook, sample.md: take it out",
        ),
        (fence("-- check: a", "SELECT 2;"), "1: outside of any phase this never runs"),
        ("a\0", "1: a NUL byte"),
        ("```sql\nSELECT 1\n", "1: this fence is never closed"),
    ],
)
def test_what_is_no_variant_is_reported(beside: str, message: str, findings_beside: Beside) -> None:
    [said] = findings_beside(check(sql="SELECT 7 AS n;"), beside)

    assert said.startswith(f"sample.sqlite.md:{message}")


def test_a_variant_twice_is_reported(findings_beside: Beside) -> None:
    beside = READY + fence("-- check: a", OLD_LITE) + fence("-- check: a", "SELECT 3 AS n;")
    [said] = findings_beside(check(), beside)

    assert said == "sample.sqlite.md:7: check a appears twice in one phase: keep one of them"


def test_a_page_for_postgresql_wants_a_criterion_beside_it(findings_beside: Beside) -> None:
    [said] = findings_beside(check("-- dialect: postgresql"), READY + fence("-- check: a", OLD_LITE))

    assert said.startswith(
        "sample.sqlite.md:3: check a is for PostgreSQL alone in sample.md:9: give it a criterion"
    )


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (check(), "check a"),
        (check(sql="SELECT 7 AS n;") + fence("-- explains: a", OLD), "evidence for a"),
        (check(sql="SELECT 7 AS n;") + fence("-- view: a-view", OLD), "view a-view"),
    ],
)
def test_what_sqlite_cannot_read_wants_a_variant_where_the_page_has_some(
    body: str, what: str, findings_beside: Beside, findings_in: Callable[[str], list[tuple[int, str]]]
) -> None:
    [said] = findings_beside(body, "Nothing differs.\n")

    assert (
        f": {what}: SQLite does not know `now()`, `interval`: write its variant into sample.sqlite.md, under"
        in said
    )
    assert "or say `-- dialect: postgresql` here" in said
    assert findings_in(body) == [], "a project with PostgreSQL alone is left in peace"


def test_evidence_of_what_sqlite_does_not_evaluate_needs_none(findings_beside: Beside) -> None:
    assert (
        findings_beside(check("-- dialect: postgresql") + fence("-- explains: a", "SELECT now();"), "None.\n")
        == []
    )


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    page, beside = tmp_path / "sample.md", tmp_path / "sample.sqlite.md"
    page.write_bytes((FRONT + check()).encode())
    beside.write_bytes(("\ufeff" + READY + fence("-- check: a", OLD_LITE)).replace("\n", "\r\n").encode())
    return page, beside


def test_the_hash_covers_both_files(files: tuple[Path, Path]) -> None:
    page, beside = files
    both = load(page)

    assert both.variants == str(beside)
    assert both.sha256 == hashlib.sha256(page.read_bytes() + beside.read_bytes()).hexdigest()
    beside.unlink()
    assert load(page).sha256 == hashlib.sha256(page.read_bytes()).hexdigest()
    assert load(page).variants is None


def test_either_file_is_linted_with_the_other(files: tuple[Path, Path]) -> None:
    page, beside = files
    assert examine(page)[1] == examine(beside)[1] == []
    beside.write_text(READY + fence("-- check: b", "SELECT 1;"))
    assert examine(page)[1] == examine(beside)[1] != []
    beside.write_bytes(b"\xff")
    assert [str(finding) for finding in examine(page)[1]] == [
        f"{beside}:1: not UTF-8 (byte 0xff): save the file as UTF-8"
    ]


def test_variants_without_a_page_are_a_finding_and_no_runbook(files: tuple[Path, Path]) -> None:
    page, beside = files
    with pytest.raises(
        RunbookError, match=r"sample\.sqlite\.md:1: this file has only the SQLite variants of .*sample\.md"
    ):
        load(beside)
    assert without_page(page.parent) == []
    page.unlink()
    assert without_page(page.parent) == [beside]
    [finding] = examine(beside)[1]
    assert str(finding) == f"{beside}:1: there is no runbook {page}: write it, or take these variants away"
