"""The hook for pre-commit, which lints runbooks, and pre-commit itself, which runs it."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from pipestate.cli.main import app
from support.alembic_runs import ROOT
from support.ci_page import GIT, committed, git, runner, yaml_of_the_page
from support.documentation import lay_out
from support.runbook_samples import block, page


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory as the runner has it after the checkout."""
    directory = tmp_path / "checkout"
    directory.mkdir()
    lay_out(directory, [])
    return directory


def hook() -> dict[str, str]:
    (found,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert isinstance(found, dict)
    return found


def repository_of_the_page() -> dict[str, Any]:
    (named,) = (repo for each in yaml_of_the_page() if "repos" in each for repo in each["repos"])
    assert isinstance(named, dict)
    return named


def lint(*files: str) -> tuple[int, str]:
    """What pre-commit would run."""
    program, *words = shlex.split(hook()["entry"])
    assert program == "pipestate"
    done = CliRunner().invoke(app, [*words, *files])
    return done.exit_code, done.output


def test_the_hook_is_the_one_that_the_page_names() -> None:
    assert repository_of_the_page()["hooks"] == [{"id": hook()["id"]}]
    assert hook()["language"] == "python"


def test_the_hook_takes_runbooks_and_nothing_else() -> None:
    taken = re.compile(hook()["files"])
    for path in ("runbooks/orders.md", "services/orders/runbooks/orders.md"):
        assert taken.search(path), path
    for path in ("README.md", "runbooks/notes/orders.md", "runbooks/orders.txt", "old-runbooks/orders.md"):
        assert not taken.search(path), path


def test_the_hook_passes_good_runbooks_and_stops_broken_ones(tmp_path: Path) -> None:
    good = tmp_path / "queue-cutover.md"
    shutil.copy(ROOT / "runbooks" / "queue-cutover.md", good)
    broken = tmp_path / "broken.md"
    broken.write_text(page(block("DELETE FROM sites"), name="broken"))
    assert lint(str(good))[0] == 0
    code, said = lint(str(good), str(broken))
    assert code == 2
    assert f"{broken}:11: check c: begins with DELETE" in said


def test_a_page_that_is_no_runbook_is_a_finding(tmp_path: Path) -> None:
    """What lies among the runbooks and is not read would look like a runbook that passes."""
    other = tmp_path / "README.md"
    other.write_text("# About these runbooks\n")
    code, said = lint(str(other))
    assert code == 2
    assert f"{other}:1: no front matter" in said


@pytest.fixture
def copy_of_pipestate(tmp_path: Path) -> Path:
    """Somebody's copy of the repository, as far as pre-commit looks at it."""
    directory = tmp_path / "pipestate"
    directory.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", directory)
    return directory


def test_pre_commit_itself_runs_the_hook_on_runbooks_alone(
    checkout: Path, copy_of_pipestate: Path, tmp_path: Path
) -> None:
    """With the pipestate of this environment: language python would install it from the network."""
    named = repository_of_the_page()
    named |= {"repo": str(copy_of_pipestate), "rev": committed(copy_of_pipestate)}
    named["hooks"][0]["language"] = "system"
    (checkout / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [named]}))
    committed(checkout)
    here = runner(checkout, **GIT, PRE_COMMIT_HOME=str(tmp_path / "cache"))
    (good,) = here.run_steps([{"run": "pre-commit run --all-files --verbose"}])
    assert good.code == 0, good.printed
    assert "3 runbooks, 0 findings" in good.printed
    (checkout / "runbooks" / "broken.md").write_text(page(block("DELETE FROM sites")))
    git(checkout, "add", "--all")
    (broken,) = here.run_steps([{"run": "pre-commit run"}])
    assert broken.code == 1
    assert "runbooks/broken.md:11: check c: begins with DELETE" in broken.printed
