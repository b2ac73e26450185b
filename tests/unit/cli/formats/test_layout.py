"""Evidence in every format: the rows that show why, and how many more there are."""

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from pipestate.cli.formats.ci import as_junit, as_markdown
from pipestate.cli.formats.json import as_plain
from pipestate.cli.formats.layout import database_line
from pipestate.cli.formats.status import show_views
from pipestate.cli.formats.verify import print_report
from pipestate.project.find import Calls
from pipestate.runbook.model import Level
from pipestate.status.model import Shown
from pipestate.verify.report import DatabaseInfo, Gate, Outcome, PhaseReport, Report, RunbookReport, Verdict


def make_report(rows: int, total: int) -> Report:
    evidence = tuple({"fault": f"late {number}"} for number in range(rows))
    verdict = Verdict(
        "quiet", Outcome.FAILED, Level.BLOCK, "rows = 0", {"rows": total}, "…", "s.md:9", 1.0, evidence, total
    )
    phase = PhaseReport("ready", Gate.CLOSED, (), (verdict,))
    info = DatabaseInfo("sqlite:///x", "sqlite", "3", None, None)
    return Report(info, datetime.now(UTC), 1.0, (RunbookReport("s", "s.md", "", (phase,)),))


def on_a_screen(report: Report) -> str:
    screen = Console(width=100, file=io.StringIO(), no_color=True)
    print_report(report, screen, Calls())
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


@pytest.mark.parametrize(
    ("rows", "total", "said"),
    [
        (3, 3, None),
        (8, 8, "and 3 more: --evidence all lists them"),
        (10, 1244, "and 1,239 more: --evidence all lists them"),
    ],
)
def test_a_screen_shows_five_rows_and_counts_the_others(rows: int, total: int, said: str | None) -> None:
    text = on_a_screen(make_report(rows, total))
    assert text.count("late ") == min(rows, 5)
    assert (said in text) if said else " more" not in text


def test_the_other_formats_show_what_there_is_and_count_the_rest() -> None:
    report = make_report(10, 1244)
    for text in (as_junit(report), as_markdown(report, Calls())):
        assert text.count("late ") == 10
        assert "and 1,234 more" in text
    (check,) = as_plain(report)["runbooks"][0]["phases"][0]["checks"]
    assert (len(check["evidence"]), check["evidence_rows"]) == (10, 1244)


def test_nothing_is_said_of_more_where_all_is_shown() -> None:
    for text in (as_junit(make_report(2, 2)), as_markdown(make_report(2, 2), Calls())):
        assert " more" not in text


def test_a_view_counts_its_rows_too() -> None:
    screen = Console(width=100, file=io.StringIO(), no_color=True)
    screen.print(*show_views([Shown("v", ({"a": "x", "b": "y"},), None, 60)], 100))
    assert isinstance(screen.file, io.StringIO)
    assert "and 59 more" in screen.file.getvalue()


def test_a_project_without_migrations_is_said() -> None:
    info = DatabaseInfo("sqlite:///shop.db", "sqlite", "3.45.0", None, None)
    assert database_line(info).endswith("at revision base (no migrations yet)")
