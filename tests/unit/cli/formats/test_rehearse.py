"""What a rehearsal looks like: within its width on a terminal, and harmless in a comment."""

import os
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from pipestate.cli.formats.rehearse import (
    compat_as_lines,
    compat_as_markdown,
    rehearsal_as_lines,
    rehearsal_as_markdown,
)
from pipestate.cli.rehearse import WIDEST
from pipestate.rehearse.child_process import Failure, GateOutcome
from pipestate.rehearse.compat import UTILITY, Compat, StatementResult
from pipestate.rehearse.impact import (
    LimitFinding,
    LimitVerdict,
    LockEncounter,
    Rehearsal,
    Return,
    RevisionImpact,
)
from pipestate.rehearse.writes import BrokenWrite, Writes
from support.alembic_runs import ROOT
from support.rehearsal_results import made_statement, made_table

HOSTILE = "a|b <img src=x> `c` @team [d](http://e)\n# f \x1b[31m ::error::g"


def made(name: str = "orders", **overrides: object) -> Rehearsal:
    """A rehearsal over its limit, with something of everything in it."""
    tables = (
        made_table(
            "ALTER TABLE orders ADD COLUMN b2 integer",
            table=name,
            encounter=LockEncounter("b2", name, False, 2003.0),
        ),
        made_table(table="lines", writer_ms=3.0, rows=10, production_rows=45),
        made_table(table="parts", writer_ms=None, reader_ms=None, rows_ms=None, rows=1, production_rows=99),
    )
    gates = (GateOutcome("b2", "shop/ready", "closed", ("approved",)),)
    revision = RevisionImpact("b2", "versions/b2.py", 2000.0, tables, gates, made_statement("SELECT 1"))
    found = Rehearsal("postgresql://clones/nightly", "postgresql 18.4", "a1", "c3", 2100.0, 10.0, (revision,))
    return replace(
        found,
        revisions=(revision, RevisionImpact("c3", "versions/c3.py", 5.0)),
        findings=(LimitFinding("b2", name, "versions/b2.py:7", "waits", "do not wait", LimitVerdict.OVER),),
        limit_ms=500.0,
        returned=Return((f"table {name} is gone",)),
        not_probed={"parts": "too many tables"},
        **overrides,  # type: ignore[arg-type]
    )


WRITES = Writes(
    3, tuple(f"t{number}" for number in range(7)), (BrokenWrite("orders", "UPDATE", "no field x", ("app",)),)
)


@pytest.mark.parametrize("width", [80, 120])
def test_a_rehearsal_looks_like_its_kept_screen(width: int) -> None:
    screen = ROOT / "tests" / "screens" / f"rehearse-{width}.txt"
    seen = "\n".join(rehearsal_as_lines(made(writes=WRITES), min(width, WIDEST))) + "\n"
    if "PIPESTATE_WRITE_SCREENS" in os.environ:
        screen.write_text(seen, encoding="utf-8")
    assert seen == screen.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, 80])
def test_every_line_fits_and_says_what_is_certain_what_is_guessed_and_what_nobody_knows(width: int) -> None:
    lines = list(rehearsal_as_lines(made(writes=WRITES), width))
    assert [line for line in lines if len(line) > width] == []
    assert lines[0].startswith("Broken: 1 write that worked before. Over the limit: ")
    said = " ".join(" ".join(lines).split())
    for sentence in (
        "broken: UPDATE of a row of orders as app worked before and fails now: no field x",
        "Writes: one row of 3 tables was updated, inserted and deleted, and rolled back.",
        "Not written to, because they are empty: t0, t1, t2, t3, t4 and 2 more.",
        "the request never gives up (tried: it still waited after 2.0 s)",
        "the request gives up (read from lock_timeout: 200 ms)",
        "lines 10 rows, 8 kB; in production 45 rows: estimates × 4.5",
        "held 9.0 s (2.0 s here); a writer: too small to measure",
        "in production 99 rows: more than 10 × is a guess",
        "held 2.0 s here, unknown in production; a writer not measured",
        "over: b2, versions/b2.py:7: orders: it waits. Instead: do not wait",
        "Over the limit: the longest wait is 2.0 s, the limit is 500 ms.",
    ):
        assert sentence in said


def test_a_clone_that_could_not_be_copied_is_said() -> None:
    lines = " ".join(rehearsal_as_lines(made(not_tried="the role may not create databases")))
    assert "No blocking reader was used (the role may not create databases)" in " ".join(lines.split())


def test_markdown_has_the_findings_and_what_a_terminal_shows() -> None:
    text = rehearsal_as_markdown(made(writes=WRITES))
    assert text.startswith("### ❌ pipestate rehearse: Broken: 1 write that worked before. Over the limit: ")
    html = MarkdownIt().render(text)
    assert "<li>broken: UPDATE of a row of orders as app worked before and fails now: no field x</li>" in html
    assert "<li>over: b2, versions/b2.py:7: orders: it waits. Instead: do not wait</li>" in html
    (_, *shown, _) = text.partition("```text\n")[2].splitlines()
    lines = list(rehearsal_as_lines(made(writes=WRITES), WIDEST))
    assert shown == lines[lines.index("") + 2 :]


def test_hostile_text_stays_text_in_markdown() -> None:
    failure = Failure(HOSTILE, None, 1)
    statement = StatementResult(HOSTILE, HOSTILE, "b2", HOSTILE)
    comments = (
        rehearsal_as_markdown(made(HOSTILE, failure=failure, not_tried=HOSTILE)),
        compat_as_markdown(Compat(HOSTILE, "a1", "b2", 2, (statement,), (), (statement,), failure)),
    )
    for text in comments:
        html = MarkdownIt().enable("table").render(text)
        assert "<img" not in html
        assert "<a " not in html
        assert "<h1>" not in html
        assert "@team" not in re.sub("(?s)<code.*?</code>", "", html)  # in code nobody is mentioned
        assert "\x1b" not in text
        assert "\n::error" not in text


def test_statements_that_cannot_be_prepared_are_listed_by_reason() -> None:
    unprepared = [StatementResult("VACUUM orders", UTILITY) for _ in range(12)]
    unprepared.append(StatementResult("SELECT * FROM nowhere", "no such table"))
    found = Compat("clone", "a1", "b2", 20, (), (), tuple(unprepared))
    lines = list(compat_as_lines(found))
    assert lines[0].startswith("20 statements: 0 would break")
    lines = [line for line in lines[1:] if not line.startswith("  columns")]
    assert lines[0] == "not prepared, a command that cannot be prepared: 12"
    assert lines[1:11] == ["  VACUUM orders"] * 10
    assert lines[11] == "  and 2 more; --json shows them"
    assert lines[12:14] == [
        "not prepared, no such table: 1",
        "  SELECT * FROM nowhere",
    ]
