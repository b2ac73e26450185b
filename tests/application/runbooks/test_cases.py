"""Every check of every shipped page: it passes on a healthy database, and turns on one that is broken."""

import re
from collections.abc import Iterator

import pytest

from application.runbooks.content_item_pipeline_state_cases import PAGE as CONTENT_ITEM_PIPELINE_STATE
from application.runbooks.queue_cutover_cases import PAGE as QUEUE_CUTOVER
from application.runbooks.sites_consolidation_cases import PAGE as SITES_CONSOLIDATION
from pipestate.runbook.lint import examine
from support.alembic_runs import ROOT
from support.check_cases import ENGINES, Case, Page
from support.servers import Database, Postgres, Sqlite
from support.verdicts import checks_of, not_passed, rows_of, verdicts

PAGES = (SITES_CONSOLIDATION, CONTENT_ITEM_PIPELINE_STATE, QUEUE_CUTOVER)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@every_page
def test_the_page_has_nothing_to_object_to(page: Page) -> None:
    assert examine(page.runbook.path)[1] == []


def test_the_table_of_criteria_has_every_check_and_none_that_is_gone() -> None:
    """Scripts rely on these ids, and no criterion of the sources may get lost (CONTRIBUTING.md)."""
    phases = [phase for page in PAGES for phase in page.runbook.phases]
    covered = {check.id for phase in phases for check in phase.checks}
    others = {*(phase.name for phase in phases), *(view.id for phase in phases for view in phase.views)}
    named = ids_of_the_table()
    assert covered - named == set(), "add a row to `Criteria and their checks`"
    assert named - covered - others == set(), "the table names what no page has"


def ids_of_the_table() -> set[str]:
    """What stands in backquotes in the last column of the table."""
    table = (
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("\n## Criteria and their checks")[2]
    )
    became = [row.rpartition("|")[2] for row in re.findall(r"^\|(.*)\|$", table, re.MULTILINE)]
    return {id for cell in became for id in re.findall(r"`([a-z0-9-]+)`", cell)}


@pytest.mark.parametrize(
    ("page", "phase"),
    [
        pytest.param(page, phase.name, id=f"{page.name}/{phase.name}")
        for page in PAGES
        for phase in page.runbook.phases
    ],
)
def test_every_check_passes_on_a_healthy_database(bed: Postgres | Sqlite, page: Page, phase: str) -> None:
    with page.copy(bed, phase) as database:
        assert not_passed(verdicts(database, page.runbook, None if page.whole else phase)) == {}


@pytest.mark.parametrize("engine", ENGINES)
@every_page
def test_every_check_is_broken_on_each_engine(page: Page, engine: str) -> None:
    broken = {case.check for case in page.cases if case.on(engine)}
    assert broken == set(checks_of(page.runbook, engine))


CASES = [
    pytest.param(engine, page, case, id=f"{engine}-{page.name}/{case.check}: {case.what}")
    for page in PAGES
    for case in page.cases
    for engine in ENGINES
    if case.on(engine)
]


@pytest.fixture(scope="module")
def shared() -> Iterator[dict[str, Database]]:
    """The healthy databases of PostgreSQL that cases borrow; the server goes soon after them."""
    databases: dict[str, Database] = {}
    yield databases
    for database in databases.values():
        database.engine.dispose()


@pytest.mark.parametrize(("bed", "page", "case"), CASES, indirect=["bed"])
def test_a_check_turns_alone_and_shows_why(
    bed: Postgres | Sqlite, page: Page, case: Case, shared: dict[str, Database]
) -> None:
    with page.borrow(bed, case.phase, shared) as database:
        case.apply(database)
        found = verdicts(database, page.runbook, None if page.whole else case.phase)
        assert found[case.check].outcome is case.outcome, found[case.check].message
        assert set(not_passed(found)) == case.turned
        assert len(found[case.check].evidence) <= 10
        shown = [" ".join(map(str, row)) for row in rows_of(found[case.check])]
        if case.shows is None:
            assert shown == []
        else:
            assert shown, "nothing is shown"
            assert not case.shows or f" {case.shows} " in f" {shown[0]} "


@every_page
def test_every_check_has_advice_under_its_block(page: Page) -> None:
    """What a check is for begins in bold; then comes its block, with its evidence, and then what to do."""
    text = re.sub(r"^```sql\n-- explains:.*?^```\n\n", "", page.runbook.text, flags=re.MULTILINE | re.DOTALL)
    block = re.compile(r"^```sql\n-- check: (\S+)$.*?^```\n\n", flags=re.MULTILINE | re.DOTALL)
    first, *parts = block.split(text)
    ids, after = parts[::2], parts[1::2]
    assert set(ids) == {check.partition("/")[2] for check in checks_of(page.runbook)}
    no_advice = [id for id, text in zip(ids, after, strict=True) if re.match(r"\*\*|#|```|- again:", text)]
    assert no_advice == []
    before = [first, *after[:-1]]
    no_reason = [
        id for id, text in zip(ids, before, strict=True) if not re.search(r"^\*\*", text, re.MULTILINE)
    ]
    assert no_reason == []


def test_no_case_stands_twice() -> None:
    ids = [param.id for param in CASES]
    assert len(ids) == len(set(ids))
