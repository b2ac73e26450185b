"""The miniature projects under tests/projects: each is copied before it is used."""

import shutil
from pathlib import Path

PROJECTS = Path(__file__).parents[1] / "projects"


def copy_project(name: str, to: Path) -> Path:
    """Copy a project into a directory, and return where it is."""
    return Path(shutil.copytree(PROJECTS / name, to / name, ignore=shutil.ignore_patterns("__pycache__")))
