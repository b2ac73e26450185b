"""The workflows of docs/start/first-check.md and docs/how-to/ as tests read them, and what they run them on."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from support.documentation import examples, find_page
from support.github_runner import Runner
from support.servers import Database

CI = find_page("ci-github.md")
FIRST_CHECK = find_page("first-check.md")
BIN = Path(sys.executable).parent
GIT = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def yaml_of_the_page(page: Path = CI) -> list[dict[Any, Any]]:
    return [yaml.safe_load(example.text) for example in examples(page) if example.language == "yaml"]


def workflow(page: Path = CI) -> dict[Any, Any]:
    return yaml_of_the_page(page)[0]


def steps(job: str) -> list[dict[str, Any]]:
    """The job's own steps: installing packages is the one that is left out."""
    jobs = workflow(FIRST_CHECK)["jobs"] | workflow()["jobs"]
    all_steps: list[dict[str, Any]] = jobs[job]["steps"]
    return [step for step in all_steps if not step.get("run", "").startswith("pip install ")]


def runner(checkout: Path, database: Database | None = None, /, **environment: str) -> Runner:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    url = {"DATABASE_URL": database.text} if database else {}
    return Runner(checkout, {"PATH": path, **url, **environment})


def git(directory: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=directory,
        env={**os.environ, **GIT},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def committed(directory: Path) -> str:
    """Make a repository of a directory, and return its commit."""
    git(directory, "init", "--quiet", "--initial-branch", "main")
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--message", "all of it")
    return git(directory, "rev-parse", "HEAD")
