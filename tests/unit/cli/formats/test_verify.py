"""What `verify` and `gate` print: the answer, failures with evidence and advice, and what passed."""

import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipestate.cli.formats.verify import print_report
from pipestate.project.find import Calls
from pipestate.runbook.model import Advice, Level
from pipestate.verify.report import (
    DatabaseInfo,
    Gate,
    Outcome,
    PhaseReport,
    Report,
    RunbookReport,
    Verdict,
    gate_of,
)

HOSTILE = "x[/y] [bold]z\x1b[2J\n::error::owned\u202e"


def verdict(
    id: str, outcome: Outcome = Outcome.FAILED, message: str = "n is 2, required = 0", **more: Any
) -> Verdict:
    return Verdict(id, outcome, more.pop("level", Level.BLOCK), "n = 0", {}, message, "b.md:9", 1.0, **more)


def make_report(*verdicts: Verdict, opens: tuple[str, ...] = ()) -> Report:
    info = DatabaseInfo("sqlite:///shop.db", "sqlite", "3.45", "a1", "c3")
    phase = PhaseReport("ready", gate_of(verdicts), opens, verdicts)
    return Report(info, datetime.now(UTC), 12.0, (RunbookReport("orders", "b.md", "", (phase,)),))


def seen(report: Report, width: int = 80, **more: Any) -> list[str]:
    """What stands on a terminal of this width."""
    screen = Console(
        width=width, file=io.StringIO(), no_color=True, force_terminal=True, legacy_windows=False
    )
    print_report(report, screen, Calls(), **more)
    assert isinstance(screen.file, io.StringIO)
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", screen.file.getvalue()).splitlines()]


PASSED = verdict("fine", Outcome.PASSED, "n is 0, required = 0")
ADVICE = Advice("Restart the workers, then wait.", "b.md:14")


def test_the_answer_is_first_then_failures_then_a_count_then_the_command() -> None:
    lines = seen(make_report(PASSED, verdict("late", advice=ADVICE), replace(PASSED, check_id="good")))
    assert lines == [
        "Closed: orders/ready (1 of 3 checks failed).",
        "shop.db, sqlite 3.45, at revision a1 of c3",
        "",
        "orders/ready closed",
        "failed   late: n is 2, required = 0",
        "    Advice: Restart the workers, then wait. (b.md:14)",
        "",
        "2 checks passed in 12 ms (--verbose lists each)",
        "Next: fix what failed, then pipestate gate orders/ready",
    ]


def test_verbose_lists_what_passed_behind_what_failed() -> None:
    skipped = verdict("other", Outcome.SKIPPED, "it begins at revision b2")
    lines = seen(make_report(skipped, PASSED, verdict("late")), verbose=True)
    outcomes = [line.split()[0] for line in lines if re.match("(passed|failed|skipped) ", line)]
    assert outcomes == ["failed", "passed", "skipped"]
    assert "1 check passed, 1 skipped in 12 ms" in lines


def test_an_open_gate_is_three_lines_and_the_upgrade() -> None:
    assert seen(make_report(PASSED, opens=("c3",))) == [
        "Open: orders/ready.",
        "shop.db, sqlite 3.45, at revision a1 of c3",
        "",
        "1 check passed in 12 ms (--verbose lists each)",
        "Next: alembic upgrade head",
    ]


def test_warnings_are_shown_and_close_nothing() -> None:
    lines = seen(make_report(PASSED, verdict("slow", level=Level.WARN)))
    assert lines[0] == "Open: orders/ready."
    assert "warned   slow: n is 2, required = 0" in lines
    assert "1 check passed, 1 warned in 12 ms (--verbose lists each)" in lines


def test_checks_that_share_an_error_share_a_line() -> None:
    errored = [verdict(id, Outcome.ERRORED, "this database has no ledger") for id in ("signed", "soak")]
    lines = seen(make_report(*errored, verdict("late")))
    assert lines[0] == "Closed: orders/ready (1 of 3 checks failed, 2 could not be evaluated)."
    assert "errored  signed, soak: this database has no ledger" in lines


def test_rows_and_advice_that_stand_above_are_named_and_not_repeated() -> None:
    rows = ({"fault": "late", "id": 7}, {"fault": "late", "id": 8})
    same: dict[str, Any] = {"evidence": rows, "evidence_rows": 2, "advice": ADVICE}
    text = "\n".join(seen(make_report(verdict("one", **same), verdict("two", **same))))
    assert text.count("late   7") == 1
    assert "    the same rows as under one\n" in text
    assert text.count("Restart the workers") == 1
    assert "    Advice: as under one\n" in text


def test_a_sign_off_has_what_it_confirms_and_the_command_on_a_line_of_its_own() -> None:
    said = "not signed off within 24h: pipestate attest orders/ready/backup --by YOU"
    unsigned = verdict("backup", message=said, advice=Advice("a dump was restored", "b.md:9"))
    assert seen(make_report(unsigned))[4:7] == [
        "failed   backup: not signed off within 24h",
        "    Confirm: a dump was restored (b.md:9)",
        "    pipestate attest orders/ready/backup --by YOU",
    ]


def test_advice_is_cut_between_words_at_200_characters() -> None:
    long = Advice("Look into it. " * 30, "b.md:14")
    text = " ".join(" ".join(seen(make_report(verdict("late", advice=long)))).split())
    (advice,) = re.findall(r"Advice: (.*) … \(b\.md:14\)", text)
    assert 180 < len(advice) <= 200
    assert advice.endswith((" it.", " into", " Look"))


def test_numbers_are_written_for_people() -> None:
    rows = ({"share": 0.1 + 0.2, "n": 3},)
    assert "    0.3    3" in seen(make_report(verdict("late", evidence=rows, evidence_rows=1)))


def test_a_path_is_relative_where_that_is_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = make_report(replace(verdict("late"), source=f"{tmp_path}/runbooks/b.md:9"))
    info = replace(report.database, url=f"sqlite:///{tmp_path}/shop.db")
    lines = seen(replace(report, database=info))
    assert "    runbooks/b.md:9" in lines
    assert lines[1].startswith("shop.db, ")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("text", [HOSTILE, "word " * 60, "w" * 300], ids=["hostile", "words", "one word"])
def test_data_is_data_and_no_line_is_too_wide(width: int, text: str) -> None:
    row = {text[:80]: text, "n": text}
    wrong = verdict("late", message=text, evidence=(row,), evidence_rows=9, advice=Advice(text, "b.md:14"))
    report = make_report(wrong, verdict("odd", Outcome.ERRORED, text), replace(PASSED, message=text))
    lines = seen(report, width, verbose=True)
    assert [line for line in lines if len(line) > width] == []
    assert not re.findall("[\x00-\x1f\x7f-\x9f\u202a-\u202e]", "".join(lines))
    assert not [line for line in lines if line.lstrip().startswith("::")]
    assert any("and 8 more: --evidence all" in line for line in lines)


def test_several_gates_are_answered_together_and_counted() -> None:
    report = make_report(verdict("late"))
    others = [
        PhaseReport(name, gate, (), checks)
        for name, gate, checks in (("a", Gate.OPEN, (PASSED,)), ("b", Gate.FINISHED, ()))
    ]
    (book,) = report.runbooks
    lines = seen(replace(report, runbooks=(replace(book, phases=(*others, *book.phases)),)))
    assert lines[0] == "Closed: orders/ready (1 of 1 check failed)."
    assert "1 check passed, 1 gate open, 1 gate finished in 12 ms (--verbose lists each)" in lines
    assert "orders/a open" not in lines
