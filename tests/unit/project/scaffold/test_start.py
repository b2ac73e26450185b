"""Where the first page goes, and when a ledger is written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipestate.project.find import Named, find_project
from pipestate.project.revision_files import read_migrations
from pipestate.project.scaffold.revision import MESSAGE, Started, WantedRevision, draft_start, skeleton
from pipestate.runbook.lint import findings

Miniature = Callable[[str], Path]


def started(named: Named | None = None) -> Started:
    project = find_project(named or Named())
    return draft_start(project, read_migrations(project), "more", WantedRevision(MESSAGE, "zz"))


def test_the_skeleton_is_a_page_whose_checks_can_be_run() -> None:
    assert findings(skeleton("orders", "a1"), "orders.md") == []


@pytest.mark.parametrize(
    ("name", "named", "page"),
    [
        ("own_version_table", Named(), "runbooks/more.md"),
        ("pyproject", Named(), "runbooks/more.md"),
        ("no_ini", Named(scripts=Path("app/migrations")), "app/migrations/runbooks/more.md"),
        ("sections", Named(section="sales"), "databases/sales/runbooks/more.md"),
    ],
)
def test_the_page_goes_where_pipestate_will_look_for_it(
    miniature: Miniature, name: str, named: Named, page: str
) -> None:
    miniature(name)
    start = started(named)
    assert (str(start.page), start.guarded) == (page, False)
    start.page.parent.mkdir(parents=True, exist_ok=True)
    assert find_project(named).runbooks == start.page.parent


def test_migrations_that_install_the_ledger_need_no_second_revision(miniature: Miniature) -> None:
    directory = miniature("scratch")
    start = started()
    assert (start.ledger, [draft.path.name for draft in start.drafts]) == ("b2", ["more.md"])
    ledger = directory / "migrations/versions/b2_ledger.py"
    ledger.write_text(ledger.read_text().replace("    install_ledger()", "    # install_ledger()\n    pass"))
    assert started().ledger == "zz"


def test_an_env_py_that_is_guarded_is_left_alone(miniature: Miniature) -> None:
    env = miniature("stock") / "alembic/env.py"
    env.write_text("from pipestate.environment import guard\n" + env.read_text())
    assert started().guarded
