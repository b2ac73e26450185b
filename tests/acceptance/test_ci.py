"""What other people's CI takes over: the workflow of how-to/ci-github.md, the action, and the jobs for GitLab."""

import os
import site
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from support.alembic_runs import Migrations
from support.ci_page import CI, FIRST_CHECK, runner, steps, workflow, yaml_of_the_page
from support.documentation import find_page, lay_out
from support.github_runner import ACTION, OURS, THEIRS, Runner
from support.servers import Database

pytestmark = pytest.mark.scene

# The install step as it is, without a download: pip reads these.
OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_DEPS": "1",
    "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that there shall be none
    "PYTHONPATH": os.pathsep.join(site.getsitepackages()),
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory as the runner has it after the checkout."""
    directory = tmp_path / "checkout"
    directory.mkdir()
    lay_out(directory, [])
    return directory


def test_the_workflows_have_the_parts_that_github_wants() -> None:
    fresh, flow = workflow(FIRST_CHECK), workflow()
    assert fresh[True] == ["pull_request"]  # `on` is a boolean to YAML 1.1
    assert set(flow[True]) == {"pull_request", "schedule"}
    for job in (*fresh["jobs"].values(), *flow["jobs"].values()):
        assert job["runs-on"] == "ubuntu-latest"
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert "uses" not in step or THEIRS.fullmatch(step["uses"]) or OURS.fullmatch(step["uses"])


def test_the_job_for_pull_requests_passes_on_a_fresh_database(pg: Database, checkout: Path) -> None:
    here = runner(checkout, pg)
    for done in here.run_steps(steps("fresh")):
        assert done.code == 0, done.printed
    assert Migrations(pg).revision() == "0007"
    assert "# pipestate verify: ok" in here.summary.read_text()


# --- the action -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the action's first step installs, once: the checkout itself, as GitHub would have it."""
    (install, _) = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    workspace = tmp_path_factory.mktemp("action") / "checkout"
    workspace.mkdir()
    (done,) = runner(workspace, **OFFLINE).run_steps([install], {"inputs.python": sys.executable})
    assert done.code == 0, done.printed
    program = Path(done.outputs["program"])
    assert program.is_relative_to(workspace.parent / "temp")
    return program.parent


class Installed(Runner):
    """A runner on which the first step has run already."""

    def run_steps(self, steps: Any, contexts: Any = None) -> Any:
        ours = [step for step in steps if step.get("id") != "install"]
        return super().run_steps(ours, contexts)


@pytest.fixture
def action(checkout: Path, environment: Path) -> Installed:
    program = {"steps.install.outputs.program": str(environment / "pipestate")}
    return Installed(checkout, OFFLINE, program)


def test_the_action_annotates_summarises_and_says_what_it_found(
    action: Installed, pg_expanded: Migrations
) -> None:
    done = action.use(database_url=pg_expanded.database.text)
    assert (done.code, done.outputs) == (1, {"ok": "false", "exit-code": "1"}), done.printed
    assert "::error file=runbooks/sites-consolidation.md,line=" in done.printed
    assert "# pipestate verify: not ok" in action.summary.read_text()


def test_the_action_takes_pages_a_phase_a_format_and_the_job_s_database(
    action: Installed, pg_expanded: Migrations
) -> None:
    action.environment["DATABASE_URL"] = pg_expanded.database.text
    pages = "runbooks/sites-consolidation.md\n  queue-cutover"
    done = action.use(runbooks=pages, phase="expand", format="markdown", record="true")
    assert (done.code, done.outputs) == (0, {"ok": "true", "exit-code": "0"}), done.printed
    assert "# pipestate verify: ok" in done.printed
    recorded = pg_expanded.database.rows("SELECT runbook, phase FROM pipestate.run WHERE event = 'verify'")
    assert [tuple(row) for row in recorded] == [("sites-consolidation", "expand")]


def test_what_an_input_holds_is_never_run(action: Installed, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    script = f"$(touch {trap}) `touch {trap}` \"; touch {trap}; '; touch {trap}"
    everywhere = action.use(runbooks=script, phase=script, format=script, record=script, database_url=script)
    option = action.use(runbooks=f"--output={trap}", database_url="postgresql://app@127.0.0.1:1/civic")
    assert (everywhere.code, option.code) == (2, 2), everywhere.printed + option.printed
    assert "--output" in option.printed  # as the name of a runbook that there is not
    assert not trap.exists()


def test_an_older_python_is_reported_and_nothing_is_installed(checkout: Path, tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = runner(checkout).use(python=str(old))
    assert (done.code, done.outputs["exit-code"]) == (2, "")
    assert "::error::pipestate needs Python 3.11 or later" in done.printed


def test_every_input_and_output_of_the_action_is_explained() -> None:
    action, text = yaml.safe_load(ACTION.read_text()), CI.read_text()
    for name in (*action["inputs"], *action["outputs"]):
        assert f"| `{name}` |" in text, name
    assert action["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" for step in action["runs"]["steps"])


@pytest.mark.parametrize(("broken", "ends"), [(False, 0), (True, 1)])
def test_the_job_on_the_real_database_fails_where_a_check_does(
    broken: bool, ends: int, checkout: Path, pg_expanded: Migrations
) -> None:
    if broken:
        pg_expanded.database.run("DROP INDEX idx_sites_current_stage")
    (done,) = runner(checkout, pg_expanded.database).run_steps(steps("production"))
    assert done.code == ends, done.printed
    assert ("::error file=runbooks/sites-consolidation.md" in done.printed) == broken


def test_the_job_on_the_real_database_fails_where_nothing_was_answered(checkout: Path) -> None:
    nowhere = {"DATABASE_URL": "postgresql://app@127.0.0.1:1/civic"}
    (done,) = runner(checkout, **nowhere).run_steps(steps("production"))
    assert done.code == 3, done.printed


def test_the_short_form_of_the_action_is_understood(action: Installed, pg_expanded: Migrations) -> None:
    (short,) = [each["steps"] for each in yaml_of_the_page() if "steps" in each]
    action.contexts["secrets.PIPESTATE_READER_URL"] = pg_expanded.database.text
    (done,) = action.run_steps(short)
    assert done.outputs == {"ok": "true", "exit-code": "0"}, done.printed


# --- GitLab ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("broken", "ends"), [(False, 0), (True, 1)])
def test_the_jobs_for_gitlab_leave_a_report_and_fail_where_a_check_does(
    broken: bool, ends: int, pg_expanded: Migrations, checkout: Path
) -> None:
    (page,) = yaml_of_the_page(find_page("ci-gitlab.md"))
    if broken:
        pg_expanded.database.run("DROP INDEX idx_sites_current_stage")
    for job in page.values():
        assert "allow_failure" not in job
        assert job["script"][0] == "pip install -r requirements.txt"
        (verify,) = [line for line in job["script"] if line.startswith("pipestate verify")]
        (done,) = runner(checkout, pg_expanded.database).run_steps([{"run": verify}])
        assert done.code == ends, done.printed
        report = checkout / job["artifacts"]["reports"]["junit"]
        assert ET.parse(report).getroot().tag == "testsuites"
        assert job["artifacts"]["paths"] == [report.name]


def test_the_fresh_job_of_gitlab_upgrades_an_empty_database(pg: Database, checkout: Path) -> None:
    (page,) = yaml_of_the_page(find_page("ci-gitlab.md"))
    for done in runner(checkout, pg).run_steps([{"run": line} for line in page["fresh"]["script"][1:]]):
        assert done.code == 0, done.printed
