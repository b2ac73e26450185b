"""A runner of GitHub's, as far as our own files need one: steps, their env, inputs, outputs and the summary.

Expressions are put into `env` and `with`, never into a script: one that stands in a `run` is refused.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pipestate import __version__
from support.alembic_runs import ROOT
from support.programs import run_program

ACTION = ROOT / "action.yml"
OURS = re.compile(rf"your-org/pipestate@v{re.escape(__version__)}")
THEIRS = re.compile(r"actions/[a-z-]+@v\d+")
_OURS_ALONE = re.compile(r"(?:pipestate|alembic) [\w ./-]+")
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
Names = dict[str, str]


@dataclass(frozen=True)
class Done:
    """What became of a step: its exit code, all that it printed, and its outputs."""

    code: int
    printed: str
    outputs: Names


@dataclass
class Runner:
    """A machine with a checkout. `contexts` are values of expressions, such as `secrets.URL`."""

    workspace: Path
    environment: Names
    contexts: Names = field(default_factory=dict)

    @property
    def temp(self) -> Path:
        return self.workspace.parent / "temp"

    @property
    def summary(self) -> Path:
        return self.workspace.parent / "summary.md"

    def run_steps(self, steps: Sequence[Mapping[str, Any]], contexts: Names | None = None) -> list[Done]:
        """Run steps until one fails that may not; those of GitHub's own actions do nothing here."""
        known = {**self.contexts, **(contexts or {})}
        done: list[Done] = []
        for step in steps:
            if "uses" in step and THEIRS.fullmatch(step["uses"]):
                continue
            done.append(self._use(step, known) if "uses" in step else self._run(step, known))
            known |= {
                f"steps.{step.get('id')}.outputs.{name}": value for name, value in done[-1].outputs.items()
            }
            if done[-1].code and not step.get("continue-on-error"):
                return done
        return done

    def use(self, **inputs: str) -> Done:
        """Run the action with these inputs, and the defaults of the others."""
        action = yaml.safe_load(ACTION.read_text())
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert set(given) <= set(action["inputs"]), (
            f"the action has no input {set(given) - set(action['inputs'])}"
        )
        values = {name: str(each["default"]) for name, each in action["inputs"].items()} | given
        contexts = {f"inputs.{name}": value for name, value in values.items()}
        done = self.run_steps(action["runs"]["steps"], contexts)
        last = {f"steps.verify.outputs.{name}": value for name, value in done[-1].outputs.items()}
        outputs = {name: _filled(each["value"], last) for name, each in action["outputs"].items()}
        return Done(done[-1].code, "".join(each.printed for each in done), outputs)

    def _use(self, step: Mapping[str, Any], contexts: Names) -> Done:
        assert OURS.fullmatch(step["uses"]), step["uses"]
        given = {name.replace("-", "_"): _filled(value, contexts) for name, value in step["with"].items()}
        return self.use(**given)

    def _run(self, step: Mapping[str, Any], contexts: Names) -> Done:
        assert "${{" not in step["run"], f"an expression in a script is run as part of it: {step['run']}"
        self.temp.mkdir(exist_ok=True)
        output = self.temp / "output"
        output.write_text("")
        environment = {
            **os.environ,
            **self.environment,
            "GITHUB_ACTION_PATH": str(ACTION.parent),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "RUNNER_TEMP": str(self.temp),
            **{name: _filled(value, contexts) for name, value in step.get("env", {}).items()},
        }
        done = _in_bash(step["run"], self.workspace, environment)
        outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        return Done(done.returncode, done.stdout + done.stderr, outputs)


def _in_bash(script: str, directory: Path, environment: Names) -> "subprocess.CompletedProcess[str]":
    """Run a script as a runner does; one that is a command of ours and no more, without a start of Python."""
    if _OURS_ALONE.fullmatch(script):
        return run_program(shlex.split(script), cwd=directory, environment=environment)
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _filled(text: str, contexts: Names) -> str:
    """Put values in the place of expressions; one that nothing is known of is empty, as GitHub has it."""
    return _EXPRESSION.sub(lambda found: contexts.get(found[1], ""), text)
