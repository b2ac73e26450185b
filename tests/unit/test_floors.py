"""`make lowest` runs the oldest versions that pyproject.toml allows, and not somewhat younger ones."""

import re
import tomllib

from support.alembic_runs import ROOT

REQUIREMENT = re.compile(r"(?P<name>[\w-]+)(?:\[\w+\])?>=(?P<version>[\w.]+)")
# Newer than their floor also in `make lowest`: the oldest Typer warns about what it was written for.
NEWEST = {"typer", "rich"}


def floors() -> dict[str, list[int]]:
    """What pyproject.toml says, of what pipestate needs and of the drivers of others."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    found = (
        REQUIREMENT.fullmatch(text) for text in [*extras["dev"], *extras["rq"], *project["dependencies"]]
    )
    return {each["name"].lower(): numbers(each["version"]) for each in found if each}


def pinned() -> dict[str, list[int]]:
    lines = (ROOT / "tests" / "lowest.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {name.lower(): numbers(version) for name, version in pairs}


def numbers(version: str) -> list[int]:
    found = [int(part) for part in version.split(".")]
    return found + [0] * (3 - len(found))


def test_the_oldest_versions_are_the_floors() -> None:
    assert {name: floors()[name] for name in pinned()} == pinned()


def test_every_dependency_has_an_oldest_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {REQUIREMENT.fullmatch(text)["name"].lower() for text in project["dependencies"]}  # type: ignore[index]
    assert needed - NEWEST <= set(pinned())
    assert {"alembic", "sqlalchemy", "psycopg", "asyncpg", "aiosqlite"} <= set(pinned())
