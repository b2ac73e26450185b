"""What pages say of revisions: those that they name exist, and one that a page opens asks that gate."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipestate.chain.lint import lint
from pipestate.chain.project import Named, Project, find_project
from pipestate.chain.read import read_chain
from pipestate.chain.revisions import refuse_wrong_revisions, wrong_revisions
from pipestate.errors import ConfigError
from pipestate.runbook.find import every_runbook
from pipestate.verify.select import ask, find_phases

Enter = Callable[[str], Path]
PAGE = Path("runbooks/orders.md")
REVISION = Path("alembic/versions/b2_drop_old_orders.py")


def found(project: Project) -> list[str]:
    return [str(each) for each in wrong_revisions(read_chain(project), every_runbook(project.runbooks))]


def test_a_gate_that_is_asked_is_no_finding(miniature: Enter) -> None:
    miniature("stock")
    assert found(find_project(Named())) == []
    REVISION.write_text(REVISION.read_text().replace('"orders/ready"', '"ready"'))
    assert found(find_project(Named())) == [], "the phase alone is enough"


@pytest.mark.parametrize("text", ["pass", "with gate('orders/steady', lock=['t']): ..."])
def test_a_revision_that_does_not_ask_its_gate(miniature: Enter, text: str) -> None:
    miniature("stock")
    head = "from pipestate.gate import gate\n\nrevision, down_revision = 'b2', 'a1'\n"
    REVISION.write_text(f"{head}\ndef upgrade() -> None:\n    {text}\n")
    (finding,) = found(find_project(Named()))
    assert finding.startswith(
        "runbooks/orders.md:9: phase ready opens b2, but alembic/versions/b2_drop_old_orders.py:3 does not ask this "
        'gate: write gate("orders/ready", ...) or Contract(...) there'
    )


def test_a_revision_that_does_not_exist(miniature: Enter) -> None:
    miniature("stock")
    PAGE.write_text(PAGE.read_text().replace('["b2"]', '["b2", "b3"]'))
    project = find_project(Named())
    (finding,) = found(project)
    assert "orders.md:9: phase ready opens b3, a revision that the chain does not have" in finding
    with pytest.raises(ConfigError, match="opens b3"):
        refuse_wrong_revisions(read_chain(project), every_runbook(project.runbooks), Named())


def test_lint_holds_the_pages_of_the_project_against_its_chain(miniature: Enter, tmp_path: Path) -> None:
    miniature("stock")
    PAGE.write_text(PAGE.read_text().replace('["b2"]', '["b3"]'))
    elsewhere = tmp_path / "orders.md"
    elsewhere.write_text(PAGE.read_text())
    project = find_project(Named())
    assert [each.path for each in lint([PAGE, elsewhere], project)] == [str(PAGE)]
    assert lint([PAGE], None) == []


def test_a_variant_is_checked_with_its_page(miniature: Enter) -> None:
    miniature("stock")
    assert lint([PAGE, PAGE.with_suffix(".sqlite.md")], None) == []


def test_the_shipped_pages_open_what_asks_them() -> None:
    assert found(find_project(Named(shipped=True))) == []


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ('from: "a1"', 'from: "a9"', "9: phase ready begins at a9, a revision that the chain does not have"),
        ('until: "b2"', 'until: "b9"', "9: phase ready ends at b9, a revision that the chain does not have"),
        ("-- check: few\n", "-- check: few\n-- from: c9\n", "11: check few: `-- from: c9` names a revision"),
        (
            "-- check: few\n-- require: orders <= 3\n",
            "-- view: few\n-- until: c9\n",
            "11: view few: `-- until: c9` names a revision that the chain does not have: correct it, or name the",
        ),
    ],
    ids=["from", "until", "check", "view"],
)
def test_a_revision_that_a_page_names_exists(miniature: Enter, was: str, becomes: str, told: str) -> None:
    miniature("stock")
    signed = "\n- [ ] `signed` (24h): Somebody has looked.\n"  # a phase must ask something
    PAGE.write_text(PAGE.read_text().replace(was, becomes) + signed)
    project = find_project(Named())
    (finding,) = found(project)
    assert finding.startswith(f"runbooks/orders.md:{told}")
    assert [str(each) for each in lint([PAGE], project)] == [finding]
    with pytest.raises(ConfigError, match="a revision that the chain does not have"):
        ask(*find_phases(every_runbook(project.runbooks))[0], read_chain(project).position(["a1"]), "sqlite")
