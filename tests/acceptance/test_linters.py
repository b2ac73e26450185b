"""The linters of migrations that docs/how-to/ci-github.md recommends, run as it says: squawk and alembic-guard."""

import shutil
from pathlib import Path

import pytest

from support.alembic_runs import ROOT
from support.ci_page import committed, git, runner, steps, workflow
from support.github_runner import Done
from support.miniatures import PROJECTS, copy_project

pytestmark = pytest.mark.scene


@pytest.fixture
def branch(tmp_path: Path) -> Path:
    """A clone on a branch, of a project whose main branch has one revision."""
    committed(copy_project("linted", tmp_path))
    git(tmp_path, "clone", "--quiet", "linted", "checkout")
    git(tmp_path / "checkout", "switch", "--quiet", "--create", "feature")
    return tmp_path / "checkout"


def linted(branch: Path, revision: str) -> list[Done]:
    """Run the job's linters after a revision has been added."""
    shutil.copy(PROJECTS / "linted" / "new" / revision, branch / "migrations" / "versions" / "b2.py")
    git(branch, "add", "--all")
    git(branch, "commit", "--quiet", "--message", revision)
    base = workflow()["jobs"]["lint"]["env"]["BASE"].replace("${{ github.base_ref }}", "main")
    linters = [step for step in steps("lint") if "pipestate" not in step.get("run", "")]
    may_fail = [{**step, "continue-on-error": True} for step in linters]
    return runner(branch, BASE=base).run_steps(may_fail)


def test_the_linters_find_what_is_careless_in_a_new_revision(branch: Path) -> None:
    guard, squawk = linted(branch, "b2_careless.py")
    assert (guard.code, squawk.code) == (1, 1), guard.printed + squawk.printed
    assert "::error file=migrations/versions/b2.py,line=11" in guard.printed
    for rule in ("adding-required-field", "require-concurrent-index-creation", "require-lock-timeout"):
        assert rule in squawk.printed
    assert "ix_orders_id" not in guard.printed + squawk.printed  # what the main branch has is not linted


def test_the_linters_pass_what_is_careful(branch: Path) -> None:
    for done in linted(branch, "b2_careful.py"):
        assert done.code == 0, done.printed


def test_the_linters_see_nothing_in_what_pipestate_writes() -> None:
    """The page says so: where one of them learns to, the page must learn it, too."""
    here = runner(ROOT, DATABASE_URL="postgresql://you@localhost/civic")
    script = "alembic upgrade 0005:0007 --sql | squawk && alembic-guard alembic/versions"
    (done,) = here.run_steps([{"run": script}])
    assert done.code == 0, done.printed
    assert "Found 0 issues in 1 file" in done.printed
    assert "no risky operations found" in done.printed
