"""What pages say of revisions: those that they name exist, and one that a page opens checks that gate."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.project.find import Named, Project, find_project
from pipestate.project.phases import lint, resolve_opens, wrong_revisions
from pipestate.project.revision_files import read_migrations
from pipestate.runbook.files import every_runbook
from pipestate.verify.checks import find_phases, select_checks

Enter = Callable[[str], Path]
PAGE = Path("runbooks/orders.md")
REVISION = Path("alembic/versions/b2_drop_old_orders.py")


def found(project: Project) -> list[str]:
    return [str(each) for each in wrong_revisions(read_migrations(project), every_runbook(project.runbooks))]


def test_a_gate_that_is_evaluated_is_no_finding(miniature: Enter) -> None:
    miniature("stock")
    assert found(find_project(Named())) == []
    REVISION.write_text(REVISION.read_text().replace('"orders/ready"', '"ready"'))
    assert found(find_project(Named())) == [], "the phase alone is enough"


@pytest.mark.parametrize("text", ["pass", "with gate('other/steady', lock=['t']): ..."])
def test_a_revision_that_does_not_check_its_gate(miniature: Enter, text: str) -> None:
    miniature("stock")
    head = "from pipestate.gate import gate\n\nrevision, down_revision = 'b2', 'a1'\n"
    REVISION.write_text(f"{head}\ndef upgrade() -> None:\n    {text}\n")
    (finding,) = found(find_project(Named()))
    assert finding.startswith(
        "runbooks/orders.md:9: phase ready opens b2, but alembic/versions/b2_drop_old_orders.py:3 does not check this "
        'gate: write gate("orders/ready", ...) or Contract(...) there'
    )


def test_a_revision_that_does_not_exist(miniature: Enter) -> None:
    miniature("stock")
    PAGE.write_text(PAGE.read_text().replace('["b2"]', '["b2", "b3"]'))
    project = find_project(Named())
    (finding,) = found(project)
    assert "orders.md:9: phase ready opens b3, a revision that the project does not have" in finding
    with pytest.raises(ConfigError, match="opens b3"):
        resolve_opens(read_migrations(project), every_runbook(project.runbooks), Named())


def test_without_opens_a_phase_opens_what_checks_it_and_ends_with_it(miniature: Enter) -> None:
    miniature("stock")
    PAGE.write_text(PAGE.read_text().replace(', until: "b2", opens: ["b2"]', ""))
    project = find_project(Named())
    (written,) = every_runbook(project.runbooks)
    assert (written.phases[0].opens, written.phases[0].until) == ((), None)
    (book,) = resolve_opens(read_migrations(project), [written], Named())
    assert (book.phases[0].opens, book.phases[0].until) == (("b2",), "b2")


def test_on_branches_a_phase_that_both_check_goes_on(miniature: Enter) -> None:
    """Where it ended with one of them, the gate of the other could never open."""
    miniature("stock")
    PAGE.write_text(PAGE.read_text().replace(', until: "b2", opens: ["b2"]', ""))
    beside = REVISION.read_text().replace('"b2"', '"b3"').replace("b2", "b3")
    REVISION.with_name("b3_beside.py").write_text(beside)
    project = find_project(Named())
    (book,) = resolve_opens(read_migrations(project), every_runbook(project.runbooks), Named())
    assert (sorted(book.phases[0].opens), book.phases[0].until) == (["b2", "b3"], None)


def test_a_revision_that_checks_what_its_runbook_does_not_have(miniature: Enter) -> None:
    miniature("stock")
    PAGE.write_text(PAGE.read_text().replace(', opens: ["b2"]', ""))
    REVISION.write_text(REVISION.read_text().replace('"orders/ready"', '"orders/reddy"'))
    (finding,) = found(find_project(Named()))
    assert finding.startswith("alembic/versions/b2_drop_old_orders.py:")
    assert (
        "checks the gate orders/reddy, but runbooks/orders.md has no phase reddy; there are ready" in finding
    )


def test_a_revision_that_checks_and_is_not_in_opens(miniature: Enter) -> None:
    miniature("stock")
    last = REVISION.read_text().replace('"b2"', '"c3"').replace('"a1"', '"b2"')
    REVISION.with_name("c3_more.py").write_text(last)
    (finding,) = found(find_project(Named()))
    assert "c3_more.py:" in finding
    assert "checks phase ready, whose `opens` does not have c3: add it there, or take `opens` out" in finding


def test_a_phase_that_is_evaluated_blocks_something(miniature: Enter) -> None:
    miniature("stock")
    text = PAGE.read_text().replace(', opens: ["b2"]', "")
    PAGE.write_text(text.replace("-- require:", "-- level: warn\n-- require:"))
    (finding,) = found(find_project(Named()))
    assert finding == (
        "runbooks/orders.md:9: phase ready opens b2 but has no blocking check: its gate could never open"
    )


def test_lint_holds_the_pages_of_the_project_against_its_migrations(miniature: Enter, tmp_path: Path) -> None:
    miniature("stock")
    PAGE.write_text(PAGE.read_text().replace('["b2"]', '["b3"]'))
    elsewhere = tmp_path / "orders.md"
    elsewhere.write_text(PAGE.read_text())
    project = find_project(Named())
    assert {each.path for each in lint([PAGE, elsewhere], project)} == {str(PAGE)}
    assert lint([PAGE], None) == []


def test_a_variant_is_checked_with_its_page(miniature: Enter) -> None:
    miniature("stock")
    assert lint([PAGE, PAGE.with_suffix(".sqlite.md")], None) == []


def test_the_shipped_pages_open_what_checks_them() -> None:
    assert found(find_project(Named(shipped=True))) == []


@pytest.mark.parametrize(
    ("was", "becomes", "reported"),
    [
        (
            'from: "a1"',
            'from: "a9"',
            "9: phase ready begins at a9, a revision that the project does not have",
        ),
        (
            'until: "b2"',
            'until: "b9"',
            "9: phase ready ends at b9, a revision that the project does not have",
        ),
        ("-- check: few\n", "-- check: few\n-- from: c9\n", "11: check few: `-- from: c9` names a revision"),
        (
            "-- check: few\n-- require: orders <= 3\n",
            "-- view: few\n-- until: c9\n",
            "11: view few: `-- until: c9` names a revision that the project does not have: correct it, or name the",
        ),
    ],
    ids=["from", "until", "check", "view"],
)
def test_a_revision_that_a_page_names_exists(miniature: Enter, was: str, becomes: str, reported: str) -> None:
    miniature("stock")
    signed = "\n- [ ] `signed` (24h): Somebody has looked.\n"  # a phase must check something
    PAGE.write_text(PAGE.read_text().replace(was, becomes) + signed)
    project = find_project(Named())
    (finding,) = found(project)
    assert finding.startswith(f"runbooks/orders.md:{reported}")
    assert [str(each) for each in lint([PAGE], project)] == [finding]
    with pytest.raises(ConfigError, match="a revision that the project does not have"):
        select_checks(
            *find_phases(every_runbook(project.runbooks))[0],
            read_migrations(project).position(["a1"]),
            "sqlite",
        )
