"""The page of the shipped runbook, two weeks into its migration, on each engine."""

import re

import pytest

from integration.report.conftest import gathered
from pipestate.project.find import Calls
from pipestate.project.revision_files import read_migrations
from pipestate.project.version_table import locator
from pipestate.report.gather import Gathered
from pipestate.report.page import render_page
from pipestate.report.series import Series, gaps
from pipestate.runbook.lint import load
from pipestate.verify.report import Outcome
from support.html_pages import Html, must_be_whole, words
from support.report_scene import DAYS, PROJECT, RUNBOOK, SILENT, build
from support.servers import Postgres, Sqlite

pytestmark = pytest.mark.scene

RECORDS = DAYS + 1 - len(SILENT)


@pytest.fixture(scope="module", params=["postgres", "sqlite"])
def seen(request: pytest.FixtureRequest) -> Gathered:
    """What is gathered once on each engine: nothing here changes it."""
    bed: Postgres | Sqlite = request.getfixturevalue(request.param)
    database = bed.create()
    build(database)
    with database.reader() as connection:
        position = locator(PROJECT, read_migrations(PROJECT))(connection)
    found = gathered(database, [load(RUNBOOK)], position)
    bed.drop(database)
    return found


@pytest.fixture(scope="module")
def page(seen: Gathered) -> Html:
    return Html(render_page(seen, Calls()))


def series_of(seen: Gathered, phase: str, check: str, column: str) -> Series:
    name = f"sites-consolidation/{phase}/{check}"
    found = seen.history.checks["sites-consolidation", phase]
    (series,) = [each for each in found if (each.title, each.column) == (name, column)]
    return series


def test_the_page_is_whole_and_small(page: Html) -> None:
    must_be_whole(page)
    assert len(page.text) < 500_000


def test_gates_come_first_with_what_is_missing(page: Html, seen: Gathered) -> None:
    headline = words(page.of_class("headline")[0])
    assert re.fullmatch(r"Closed: sites-consolidation/readiness \(3 of 1[24] checks failed\)\.", headline)
    card = words(page.with_id("gate.sites-consolidation.readiness"))
    assert "readiness closed before 0006, 0007" in card
    assert "3 of 7 days of backfill" in card
    assert re.search(
        r"Opens \d+ \w+ \d{4}, \d\d:\d\d UTC at the earliest , when the failing checks pass", card
    )
    assert "backup-taken not signed off within 24h" in card
    top = words(page.of_class("top")[0])
    assert "Failing: backup-taken " in top
    assert "Next: pipestate gate sites-consolidation/readiness" in top
    assert "%2F" not in page.text
    assert words(page.all("section")[0]).startswith("Gates")
    assert [words(each) for each in page.all("ol", "way")] == [
        "preflight finished expand open backfill open readiness closed cleanup not started rollback open"
    ]


def test_each_check_that_was_evaluated_has_its_verdict_beside_its_block(page: Html, seen: Gathered) -> None:
    for book, phase in seen.status.phases():
        for verdict in phase.checks:
            if verdict.outcome is not Outcome.SKIPPED:
                beside = page.with_id(f"check.{book.name}.{phase.name}.{verdict.check_id}")
                assert words(beside).startswith(f"{verdict.outcome} {verdict.check_id} ")
    skipped = [verdict for _, phase in seen.status.phases() for verdict in phase.checks]
    assert len(page.of_class("verdict")) == len(skipped)


def test_numbers_of_the_ledger_are_drawn_against_their_criterion(seen: Gathered) -> None:
    stuck = series_of(seen, "readiness", "stuck-sites", "stuck_pct")
    assert (stuck.records, stuck.required) == (RECORDS, "< 1.0")
    assert [point.passed for point in stuck.points] == [(point.value or 0) < 1 for point in stuck.points]
    assert stuck.failures > 1
    (gap,) = gaps(stuck, seen.window)
    assert round((gap.end - gap.start).total_seconds() / 86400) == len(SILENT) + 1
    soak = series_of(seen, "readiness", "soak", "days_open")
    assert soak.required == ">= 7"


def test_every_number_that_a_criterion_compares_has_a_chart(page: Html, seen: Gathered) -> None:
    found = {each.column for each in seen.history.checks["sites-consolidation", "readiness"]}
    assert {
        "stuck_pct",
        "health_score",
        "runs",
        "most_found",
        "days_open",
        "longest_gap_hours",
        "rows",
    } <= found
    drawn = page.all("svg", "chart")
    assert len(drawn) == len(seen.history.series())


def test_observations_have_the_limits_of_the_checks_that_need_them(seen: Gathered) -> None:
    found = {each.title: each for each in seen.history.observations}
    assert found["deferred_coordinators"].required == "= 0"
    assert found["deferred_coordinators"].failures > 10
    assert found["open_tickets"].required == ""
    assert found["open_tickets"].failures == 0


def test_who_signed_is_reported_and_for_how_long_it_holds(page: Html) -> None:
    reported = words(page.with_id("sign-offs"))
    assert "code-deployed given sites-consolidation/backfill" in reported
    assert "Valid for 36 days" in reported
    assert "mira@example.com" in reported
    assert "backup-taken missing sites-consolidation/readiness" in reported
    assert "pipestate attest sites-consolidation/readiness/backup-taken --by YOU" in reported


def test_views_and_history_are_there(page: Html) -> None:
    assert "completed" in words(page.with_id("view.sites-consolidation.stages"))
    history = words(page.with_id("history"))
    assert "sites-consolidation/backfill open" in history
    assert "sites-consolidation/readiness/backup-taken: snapshot of the 17th, looked into" in history
    assert "deferred_coordinators =" not in history


def test_a_chart_can_be_read_as_a_table(page: Html) -> None:
    for figure in page.all("figure"):
        rows = [words(each) for each in figure.iter() if each.tag == "tr"]
        assert rows[0] == "When (UTC) Value Result"
        assert 2 <= len(rows) <= 17
