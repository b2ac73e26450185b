"""The documentation is run: every command, and every block of SQL and Python that claims to work."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from alembics import ROOT, Chain
from bed import Database
from pipestate.runbook.lint import findings

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def fences(path: Path, language: str) -> list[str]:
    text = path.read_text(encoding="utf-8")
    found = re.finditer(rf"^(`{{3,}}){language}\n(.*?)^\1$", text, re.MULTILINE | re.DOTALL)
    return [match[2] for match in found]


def commands(path: Path) -> list[tuple[str, int]]:
    """`$ command  # exits N` of the console blocks, in order."""
    found = []
    for block in fences(path, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                command, _, note = line[2:].partition("  #")
                code = re.search(r"exits (\d+)", note)
                found.append((command.strip(), int(code[1]) if code else 0))
    return found


def test_the_tour_of_the_readme_runs_top_to_bottom(pg_legacy: Chain) -> None:
    tour = commands(ROOT / "README.md")
    assert len(tour) >= 10
    for command, code in tour:
        program, *arguments = shlex.split(command)
        done = subprocess.run(
            [sys.executable, "-m", program, *arguments],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": pg_legacy.database.text},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"(?:`|^)make ([a-z]+)\b", page.read_text(), re.MULTILINE))
        assert named <= targets, f"{page.name}: {named - targets}"


def test_make_alone_lists_the_targets() -> None:
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "test", "lint", "bench"):
        assert f"make {target}" in listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_sample_runbook_is_a_runbook() -> None:
    (sample,) = fences(ROOT / "docs" / "gates.md", "markdown")
    assert findings(sample, "orders.md") == []


def test_the_sample_revision_is_python() -> None:
    (sample,) = fences(ROOT / "docs" / "gates.md", "python")
    ast.parse(sample)


def test_the_read_only_role_can_verify_and_cannot_write(pg_legacy: Chain) -> None:
    database = pg_legacy.database
    pg_legacy.contract()
    name = f"reader_{database.url.database}"
    for block in fences(ROOT / "docs" / "read-only-role.md", "sql"):
        database.run(block.replace("pipestate_reader", name))
    reader = Database(database.url.set(username=name, password="change me"))
    done = subprocess.run(
        [sys.executable, "-m", "pipestate", "verify", "sites-consolidation", "content-item-pipeline-state"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": reader.text},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr  # only watched-24h is missing
    assert "errored" not in done.stdout
    with pytest.raises(Exception, match=r"permission denied|read-only"):
        reader.run("SET transaction_read_only = off", "DELETE FROM sites")
    database.run(
        f"ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE SELECT ON TABLES FROM {name}",
        f"DROP OWNED BY {name}",
        f"DROP ROLE {name}",
    )
