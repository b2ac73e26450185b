"""The report in a real Chromium. `make browser` runs these; `make test` reads the same pages without one.

The file's name keeps it out of the suite: a machine without a browser has nothing to skip.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.chrome import Page, chromium
from integration.report.conftest import gathered
from pipestate.ledger.install import install
from pipestate.project.find import Calls
from pipestate.project.revision_files import read_migrations
from pipestate.project.version_table import locator
from pipestate.report.page import render_page
from pipestate.runbook.lint import load
from support import report_scene
from support.demo_reports import write_reports
from support.hostile_report import write_hostile, write_long
from support.servers import Database, Postgres

WIDTHS = (420, 820, 1280, 1920)
PHONE, DESKTOP = WIDTHS[0], WIDTHS[2]
A4 = 718  # between its margins
APPEARANCES = [(width, scheme) for width in WIDTHS for scheme in ("light", "dark")]
NAMES = ("scene", "weeks", "long", "hostile", "empty")
LAYOUT = (Path(__file__).parent / "layout.js").read_text(encoding="utf-8")
AXE = Path(os.environ.get("PIPESTATE_AXE", "build/axe.min.js"))
PICTURES = Path(os.environ.get("PIPESTATE_PICTURES", "build/pictures"))
SILENT = (
    "Runtime.consoleAPICalled",
    "Runtime.exceptionThrown",
    "Log.entryAdded",
    "Page.javascriptDialogOpening",
)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def reports(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of reports: weeks of a migration, long names, hostile text, and nothing at all."""
    directory = tmp_path_factory.mktemp("reports")
    makers = {"scene": _scene, "weeks": _ten_weeks, "long": _long, "hostile": _hostile, "empty": _empty}
    made = {}
    for name, make in makers.items():
        database = postgres.create()
        file = directory / f"{name}.html"
        file.write_text(make(database, directory), encoding="utf-8")
        postgres.drop(database)
        made[name] = file.as_uri()
    return made


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of the reports after each command of the demo."""
    written = write_reports(tmp_path_factory.mktemp("stages"))
    return {name: file.as_uri() for name, file in written.items()}


def _scene(database: Database, directory: Path, days: int = 30) -> str:
    report_scene.build(database)
    with database.reader() as connection:
        position = locator(report_scene.PROJECT, read_migrations(report_scene.PROJECT))(connection)
    return _written(database, [load(report_scene.RUNBOOK)], position, days=days)


def _ten_weeks(database: Database, directory: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_scene, "DAYS", 70)
        return _scene(database, directory, days=71)


def _long(database: Database, directory: Path) -> str:
    with database.begin() as connection:
        install(connection)
    return _written(database, [write_long(database, directory)])


def _hostile(database: Database, directory: Path) -> str:
    with database.begin() as connection:
        install(connection)
    return _written(database, [write_hostile(database, directory)])


def _empty(database: Database, directory: Path) -> str:
    return _written(database, [])


def _written(database: Database, books: list[Any], *position: Any, days: int = 30) -> str:
    return render_page(gathered(database, books, *position, days=days), Calls())


def opened(page: Page, address: str, width: int = DESKTOP, scheme: str = "light") -> Page:
    page.resize(width, 900)
    page.prefer(scheme)
    page.open(address)
    return page


@pytest.mark.parametrize("name", NAMES)
def test_the_browser_has_nothing_to_say_and_needs_nothing_else(
    page: Page, reports: dict[str, str], name: str
) -> None:
    for width, scheme in APPEARANCES:
        opened(page, reports[name], width, scheme)
        assert [each for each in page.reported if each[0] in SILENT] == []
        requested = [each["request"]["url"] for each in page.heard("Network.requestWillBeSent")]
        assert [url for url in requested if not url.startswith("data:")] == [reports[name]]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_stage_of_the_demo_squeezes_text_or_lets_it_out_of_its_box(
    page: Page, stages: dict[str, str], width: int
) -> None:
    assert len(stages) > 20
    for name, address in stages.items():
        assert (name, opened(page, address, width).evaluate(LAYOUT)) == (name, [])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [320, *WIDTHS])
def test_no_report_squeezes_text_or_lets_it_out_of_its_box(
    page: Page, reports: dict[str, str], name: str, width: int
) -> None:
    assert opened(page, reports[name], width).evaluate(LAYOUT) == []


def test_the_measure_finds_text_that_is_squeezed_broken_or_outside(
    page: Page, reports: dict[str, str]
) -> None:
    opened(page, reports["scene"], PHONE)
    page.evaluate(
        """document.querySelectorAll('figcaption .name').forEach(each => {
          each.attributeStyleMap.set('width', '1ch');
          each.attributeStyleMap.set('overflow-wrap', 'anywhere');
        });
        document.querySelector('h1').attributeStyleMap.set('margin-left', '900px');"""
    )
    found = " ".join(page.evaluate(LAYOUT))
    for problem in ("squeezed to", "broken inside a word", "outside of", "the page scrolls sideways"):
        assert problem in found


def test_every_link_leads_to_something_that_is_then_seen(page: Page, reports: dict[str, str]) -> None:
    for name in ("scene", "long", "hostile"):
        opened(page, reports[name])
        unseen = page.evaluate(
            """(async () => {
              const wrong = [];
              for (const link of document.querySelectorAll('a[href^="#"]')) {
                document.querySelectorAll('details.part').forEach(each => each.open = false);
                link.click();
                await new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
                const place = document.querySelector(':target')?.getBoundingClientRect();
                if (!place || place.height === 0 || place.top < 0 || place.top > innerHeight)
                  wrong.push(link.getAttribute('href'));
              }
              return wrong;
            })()"""
        )
        assert unseen == []


def test_hostile_text_is_shown_and_nothing_of_it_runs(page: Page, reports: dict[str, str]) -> None:
    opened(page, reports["hostile"])
    assert page.evaluate("document.scripts.length + document.images.length") == 0
    assert page.evaluate("document.body.innerText.includes('<script>alert(1)</script>')")
    assert page.heard("Page.javascriptDialogOpening") == []


def test_a_script_that_came_into_the_page_would_not_run(page: Page, reports: dict[str, str]) -> None:
    opened(page, reports["scene"])
    page.evaluate(
        """const script = document.createElement('script');
        script.textContent = 'window.ran = true';
        document.body.append(script);"""
    )
    assert page.evaluate("window.ran === undefined")


@pytest.mark.parametrize(("width", "scheme"), [(PHONE, "light"), (DESKTOP, "dark")])
def test_axe_finds_nothing_to_complain_about(
    page: Page, reports: dict[str, str], width: int, scheme: str
) -> None:
    """Ten weeks have the elements of the scene: axe takes long, and judges it once."""
    for name in ("scene", "long", "hostile", "empty"):
        opened(page, reports[name], width, scheme)
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
        found = page.evaluate(
            """axe.run().then(done => done.violations.map(
              each => [each.id, each.help, each.nodes.slice(0, 3).map(node => node.html.slice(0, 200))]))"""
        )
        assert found == [], name


def test_it_needs_no_javascript(page: Page, reports: dict[str, str]) -> None:
    opened(page, reports["scene"])
    height = page.call("Page.getLayoutMetrics")["cssContentSize"]["height"]
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(reports["scene"])
        assert page.call("Page.getLayoutMetrics")["cssContentSize"]["height"] == height
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)


def test_print_shows_what_is_folded_and_leaves_the_menu_out(page: Page, reports: dict[str, str]) -> None:
    opened(page, reports["scene"])
    page.prefer("light", media="print")
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    folded = "document.querySelector('details.part:not([open]) .prose p').getBoundingClientRect().height"
    assert page.evaluate(folded) > 0
    page.resize(A4, 1000)
    assert page.evaluate("document.documentElement.scrollWidth") == A4
    assert len(page.call("Page.printToPDF")["data"]) > 100_000


@pytest.mark.parametrize(("width", "scheme"), APPEARANCES)
def test_pictures_are_there_to_be_viewed(
    page: Page, reports: dict[str, str], stages: dict[str, str], width: int, scheme: str
) -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    *_, last = stages.values()
    for name, address in (*reports.items(), ("demo", last)):
        opened(page, address, width, scheme)
        file = PICTURES / f"{name}-{width}-{scheme}.png"
        page.picture(file)
        assert file.stat().st_size > 10_000
