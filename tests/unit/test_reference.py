"""The reference pages say what the code has: commands, signatures, settings, messages."""

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from typing import Any

import pytest

import cli_page
from pipestate.ledger.record import VARIABLES
from pipestate.migration import run as guard_settings
from pipestate.migration.run import OPTION, X_OPTIONS
from pipestate.pipeline.queues.config import SETTINGS
from pipestate.project.version_table import ARGUMENTS
from support.alembic_runs import ROOT

REFERENCE = ROOT / "docs" / "reference"
SOURCE = ROOT / "src" / "pipestate"
PUBLIC = {
    "pipestate": ["Contract"],
    "pipestate.gate": None,
    "pipestate.ddl": None,
    "pipestate.environment": None,
    "pipestate.autogenerate": None,
    "pipestate.config": ["parse_url", "resolve_url"],
    "pipestate.backfill": ["run"],
    "pipestate.pipeline": None,
    "pipestate.schema": None,
}
NAMES = [
    (module, name) for module, names in PUBLIC.items() for name in names or import_module(module).__all__
]


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


# --- The command line -------------------------------------------------------------------------------


def test_the_page_of_the_command_line_is_what_help_prints() -> None:
    assert page("cli.md") == cli_page.page(), "make docs-cli"


@pytest.mark.parametrize("words", list(cli_page.commands()), ids=" ".join)
def test_every_line_of_a_help_is_on_the_page(words: tuple[str, ...]) -> None:
    text = page("cli.md")
    section = text.partition(f"\n## {' '.join(words)}\n")[2].partition("\n## ")[0]
    common = text.partition("\n## Common options\n")[2].partition("\n## ")[0]
    for line in cli_page.helped(*words).replace(cli_page.HELP_ALONE, "").splitlines():
        assert line in section or line in common, line


@pytest.mark.parametrize("words", list(cli_page.commands(groups=False)), ids=" ".join)
def test_every_command_has_its_exit_codes(words: tuple[str, ...]) -> None:
    assert f"`{' '.join(words)}`" in page("exit-codes.md").replace(" NAME`", "`")


# --- Python -----------------------------------------------------------------------------------------


@cache
def python_pages() -> str:
    """The tool's page, and the application's."""
    return page("python.md") + "\n" + page("../migration/python.md")


@cache
def signatures() -> dict[tuple[str, str], str]:
    """Return the signatures of the page, each in one line, by module and name."""
    found = {}
    for module, section in re.findall(r"^### `([\w.]+)`\n(.*?)(?=^### |\Z)", python_pages(), re.M | re.S):
        for fence in re.findall(r"```signature\n(.*?)```", section, re.S):
            for text in fence.split("\n\n"):
                found[module, text.partition("(")[0]] = spelt(text)
    return found


def spelt(text: str) -> str:
    """Write a signature in one line, without modules and without a comma at its end."""
    one = " ".join(text.split()).replace("( ", "(").replace(", )", ")").replace(" )", ")")
    one = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", one).replace("<factory>", "{}")
    return one.replace("'URL'", "URL").removesuffix(" -> None")


def listed(module: str) -> set[str]:
    """Return the names of the module's table."""
    rows = python_pages().partition(f"| name of `{module}` |")[2].partition("\n\n")[0]
    return {name for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_public_name_has_its_signature(module: str, name: str) -> None:
    made: Any = getattr(import_module(module), name)
    if name in listed(module):
        assert not inspect.isfunction(made), f"{name} needs a signature"
    else:
        assert signatures().get((module, name)) == spelt(f"{name}{inspect.signature(made)}")


def test_no_other_name_is_on_the_page() -> None:
    named = {*signatures(), *((module, name) for module in PUBLIC for name in listed(module))}
    assert named == set(NAMES)


def test_every_signature_is_explained() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", python_pages(), re.M))
    paragraphs = {"Contract", "contracts"}  # the only names of their modules
    assert {name for _, name in signatures()} - rows == paragraphs


# --- Settings ---------------------------------------------------------------------------------------


@cache
def sources() -> tuple[str, ...]:
    return tuple(
        path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if "demo" not in path.parts
    )


def settings_read() -> set[str]:
    """Collect the names that the source reads: from the environment, from files, from `-x`."""
    found = {*VARIABLES, *SETTINGS, *ARGUMENTS, OPTION, "pipestate:observe", "pipestate:queues"}
    found |= {f"-x {name}=" for name in X_OPTIONS}
    found |= set(re.findall(r'given\.get\("(\w+)"', inspect.getsource(guard_settings)))
    for text in sources():
        found |= set(re.findall(r'\.options?\("([\w.]+)"', text))
        found |= set(re.findall(r'get_main_option\("([\w.]+)"', text))
        found |= set(re.findall(r'environ\.get\("(\w+)"', text))
        if "environ" in text or "envvar" in text:
            found |= set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', text))
    return found - {"LC_ALL"}  # set for pg_dump, not read


def test_every_setting_is_listed() -> None:
    text = page("settings.md")
    read = settings_read()
    assert {"PIPESTATE_ENFORCE", "STORAGE_DIR", "lock_patience", "script_location", "-x force="} <= read
    assert {name for name in read if not re.search(rf"`\[?{re.escape(name)}", text)} == set()


# --- Messages ---------------------------------------------------------------------------------------


@cache
def texts_of_the_source() -> tuple[str, ...]:
    """Every text of the source; literals that follow each other are one."""
    found = [
        " ".join(node.value.split())
        for text in sources()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    for path in SOURCE.rglob("*.sql"):
        found.append(" ".join(re.sub(r"'\s*\n\s*'", "", path.read_text(encoding="utf-8")).split()))
    return tuple(found)


def messages() -> list[str]:
    rows = re.findall(r"^\| `(.+?)` \| .+ \| .+ \|$", page("errors.md"), re.M)
    assert len(rows) >= 40
    return [row.strip("` ") for row in rows]  # a message that has a backtick itself stands in two


@pytest.mark.parametrize("message", messages())
def test_a_quoted_message_is_in_the_source(message: str) -> None:
    for part in filter(None, (part.strip(" ,:;") for part in message.split("…"))):
        assert any(part in text for text in texts_of_the_source()), part
