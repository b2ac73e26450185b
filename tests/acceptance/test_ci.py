"""What other people's CI takes over: the workflow of docs/ci.md, and the hook for pre-commit."""

import re
import shlex
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from typer.testing import CliRunner

from alembics import ROOT, Chain
from bed import Database
from books import block, page
from pages import Shell, examples, lay_out
from pipestate.cli.main import app

CI = ROOT / "docs" / "ci.md"


def workflow() -> dict[Any, Any]:
    first = next(example for example in examples(CI) if example.language == "yaml")
    found: dict[Any, Any] = yaml.safe_load(first.text)
    return found


def runs(job: str) -> list[str]:
    """The job's own commands: installing the package is the one that is left out."""
    lines = [step["run"] for step in workflow()["jobs"][job]["steps"] if "run" in step]
    assert lines[0] == "pip install pipestate"
    return lines[1:]


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A directory as the runner has it after the checkout."""
    directory = tmp_path / "checkout"
    directory.mkdir()
    lay_out(directory, [])
    return directory


def test_the_workflow_has_the_parts_that_github_wants() -> None:
    flow = workflow()
    assert set(flow[True]) == {"pull_request", "schedule"}  # `on` is a boolean to YAML 1.1
    for job in flow["jobs"].values():
        assert job["runs-on"] == "ubuntu-latest"
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert "uses" not in step or re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])


def test_the_job_for_pull_requests_passes_on_a_fresh_database(pg: Database, runner: Path) -> None:
    summary = runner / "summary.md"
    shell = Shell(runner, {"DATABASE_URL": pg.text, "GITHUB_STEP_SUMMARY": str(summary)})
    for line in runs("fresh"):
        done = shell.run(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert Chain(pg).revision() == "0007"
    assert "# pipestate verify: ok" in summary.read_text()


def test_the_job_on_the_real_database_annotates_and_reports(pg_expanded: Chain, runner: Path) -> None:
    summary = runner / "summary.md"
    shell = Shell(runner, {"DATABASE_URL": pg_expanded.database.text, "GITHUB_STEP_SUMMARY": str(summary)})
    github, junit = (shell.run(line) for line in runs("production"))
    assert (github.returncode, junit.returncode) == (1, 1), github.stderr + junit.stderr
    assert "::error file=runbooks/sites-consolidation.md,line=" in github.stdout
    assert "# pipestate verify: not ok" in summary.read_text()
    assert ET.parse(runner / "pipestate.xml").getroot().tag == "testsuites"


# --- pre-commit -----------------------------------------------------------------------------------


def hook() -> dict[str, str]:
    (found,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert isinstance(found, dict)
    return found


def lint(*files: str) -> tuple[int, str]:
    """What pre-commit would run."""
    program, *words = shlex.split(hook()["entry"])
    assert program == "pipestate"
    done = CliRunner().invoke(app, [*words, *files])
    return done.exit_code, done.output


def test_the_hook_is_the_one_that_the_page_names() -> None:
    config = [yaml.safe_load(each.text) for each in examples(CI) if each.language == "yaml"][1]
    assert hook()["id"] == config["repos"][0]["hooks"][0]["id"]
    assert hook()["language"] == "python"


def test_the_hook_takes_runbooks_and_nothing_else() -> None:
    taken = re.compile(hook()["files"])
    for path in ("runbooks/orders.md", "services/orders/runbooks/orders.md"):
        assert taken.search(path), path
    for path in ("README.md", "runbooks/notes/orders.md", "runbooks/orders.txt", "old-runbooks/orders.md"):
        assert not taken.search(path), path


def test_the_hook_passes_good_runbooks_and_stops_broken_ones(tmp_path: Path) -> None:
    good = tmp_path / "good.md"
    shutil.copy(ROOT / "runbooks" / "queue-cutover.md", good)
    broken = tmp_path / "broken.md"
    broken.write_text(page(block("DELETE FROM sites")))
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
