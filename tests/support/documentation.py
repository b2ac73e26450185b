"""The documentation as the tests read it: fences in order, each with the file that it is said to be."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pipestate.runbook.markdown import Fence, blocks
from support.alembic_runs import ROOT
from support.programs import run_program

DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "RELEASING.md", *DOCS.rglob("*.md")])

_SYNTAX = re.compile(r"[$|&;<>`(]|^export |^python ")
_TITLE = re.compile(r"""title="([^"]+)\"""")
_DATABASE = re.compile(r"<!-- database: (.+?) -->")
_ROLE = re.compile(r"CREATE ROLE (\w+)")


@dataclass(frozen=True)
class Example:
    """A fenced block. `file` is its title."""

    page: str
    line: int
    language: str
    text: str
    file: str | None


@dataclass(frozen=True)
class Command:
    """`$ command  # exits N` of a console block."""

    text: str
    code: int


def find_schema(name: str) -> Path:
    """The JSON Schema that ships for this command."""
    return ROOT / "src" / "pipestate" / "cli" / "formats" / f"{name}.schema.json"


def find_page(name: str) -> Path:
    """The page of the documentation with this name, whichever folder it lies in."""
    (found,) = [each for each in PAGES if each.match(name)]
    return found


def called(page: Path) -> str:
    """How tests name a page: by its path below docs/."""
    return str(page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT))


def examples(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    found = []
    for block in (each for each in blocks(text) if isinstance(each, Fence)):
        titled = _TITLE.search(lines[block.line - 1])
        file = titled[1] if titled else None
        found.append(Example(called(page), block.line, block.language, block.content, file))
    return found


def database_of(page: Path) -> str:
    """What the page says of the database on which its examples run: the old world, unless it says more."""
    said = _DATABASE.search(page.read_text(encoding="utf-8"))
    return said[1] if said else "legacy"


def roles_of(page: Path) -> list[str]:
    return _ROLE.findall(page.read_text(encoding="utf-8"))


def missing_of(output: str, printed: str) -> list[str]:
    """The lines of an `output` block that were not printed, in their order; `…` stands for anything."""
    rest, missing = " ".join(printed.split()), []
    for piece in filter(None, (" ".join(each.split()) for each in re.split("\n|…", output))):
        _, found, after = rest.partition(piece)
        missing += [] if found else [piece]
        rest = after if found else rest
    return missing


def commands(console: str) -> list[Command]:
    found = []
    for line in console.splitlines():
        command, _, note = line.removeprefix("$ ").partition("  #")
        code = re.search(r"exits (\d+)", note)
        found.append(Command(command.strip(), int(code[1]) if code else 0))
    return found


def lay_out(directory: Path, given: list[Example]) -> None:
    """The project that the page describes; the checkout's own files, where it describes none."""
    for example in given:
        if example.file is not None:
            path = directory / example.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(example.text, encoding="utf-8")
    if not any((example.file or "").endswith(".ini") for example in given):
        for folder in ("alembic", "runbooks"):
            shutil.copytree(ROOT / folder, directory / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("alembic.ini", "README.md"):
            shutil.copy(ROOT / file, directory)


@dataclass(frozen=True)
class Shell:
    """A terminal that stays open: what one command exports, the next one sees."""

    directory: Path
    environment: dict[str, str]

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """In bash where it needs one; else in a process that has everything imported already."""
        if _SYNTAX.search(command):
            return self._in_bash(command)
        return run_program(shlex.split(command), cwd=self.directory, environment=self._environment())

    def must(self, command: Command) -> str:
        """Run it, see that it exits as the page says, and return what it printed."""
        done = self.run(command.text)
        said = f"$ {command.text}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == command.code, f"exit code {done.returncode}, not {command.code}\n{said}"
        assert "Traceback" not in done.stderr, said
        return done.stdout

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        exports = self.directory.with_name("exports")
        kept = exports.read_text(encoding="utf-8").split("\0")[:-1] if exports.exists() else []
        return {"PATH": path, **self.environment, **dict(line.split("=", 1) for line in kept)}

    def _in_bash(self, command: str) -> "subprocess.CompletedProcess[str]":
        after = "\nenv -0 > ../exports\n" if command.startswith("export ") else ""
        return subprocess.run(
            ["bash", "-c", f"{command}{after}"],
            cwd=self.directory,
            env={**os.environ, **self._environment()},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
