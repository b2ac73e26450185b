"""Commands of other packages: they join, a broken one stops only itself, a clash of names is refused."""

import ast
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import pipestate
from pipestate.cli.main import OWN
from pipestate.core import plugins
from support.packages import installed

GREET = "def greet(name: str) -> None:\n    '''Say hello.'''\n    print('hello', name)\n"
Command = Any
PACKAGE = Path(pipestate.__file__).parent


def test_a_command_of_another_package_runs_and_is_listed(pipestate: Command, tmp_path: Path) -> None:
    with installed(tmp_path, "acme", GREET, commands={"greet": "acme:greet"}):
        assert pipestate("greet", "Ada") == (0, "hello Ada\n", "")
        assert "Say hello." in pipestate("--help").out
    assert "greet" not in pipestate("--help").out


def test_a_group_of_another_package_runs(pipestate: Command, tmp_path: Path) -> None:
    code = f"import typer\napp = typer.Typer(help='Of Acme.')\n{GREET}app.command()(greet)\napp.command('bye')(greet)\n"
    with installed(tmp_path, "acme", code, commands={"acme": "acme:app"}):
        assert pipestate("acme", "greet", "Ada") == (0, "hello Ada\n", "")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import no_such_module\n", "No module named 'no_such_module'"),
        ("raise RuntimeError('not\\ntoday')\n", "not today"),
        ("", "module 'acme' has no attribute 'greet'"),
        ("greet = 7\n", "7"),
    ],
)
def test_a_broken_command_is_one_sentence_and_stops_nothing_else(
    pipestate: Command, tmp_path: Path, code: str, why: str
) -> None:
    with installed(tmp_path, "acme", code, commands={"greet": "acme:greet"}):
        done = pipestate("greet", "Ada")
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("pipestate: the command greet of acme 1.0 cannot be loaded: ")
        assert why in done.err
        assert len(done.err.splitlines()) == 1
        helped = pipestate("--help")
        assert (helped.code, helped.err) == (0, done.err)
        assert " verify " in helped.out
        assert " reconcile " in helped.out
        assert " greet " not in helped.out
        assert pipestate("--version").err == ""


def test_two_packages_with_one_name_are_refused(pipestate: Command, tmp_path: Path) -> None:
    with (
        installed(tmp_path, "acme", GREET, commands={"greet": "acme:greet"}),
        installed(tmp_path, "other", GREET, commands={"greet": "other:greet"}),
    ):
        done = pipestate("greet", "Ada")
    assert done.code == 2
    assert done.err == (
        "pipestate: the command greet of other 1.0 and acme 1.0 is offered more than once: uninstall one of them\n"
    )


def test_a_name_of_the_tool_itself_cannot_be_taken(pipestate: Command, tmp_path: Path) -> None:
    with installed(tmp_path, "acme", GREET, commands={"gate": "acme:greet"}):
        assert "hello" not in pipestate("gate", "Ada").out
        said = pipestate("--help").err
    assert (
        said == "pipestate: the command gate of acme 1.0 is left out: pipestate has a command of that name\n"
    )


def test_entry_points_are_not_read_on_the_way_of_the_tools_own_commands(
    pipestate: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(**_: object) -> None:
        raise AssertionError("entry points were read")

    monkeypatch.setattr("pipestate.core.plugins.entry_points", read)
    assert pipestate("verify", "--help").code == 0
    assert pipestate("--version").code == 0
    with pytest.raises(AssertionError):
        pipestate("reconcile")


@pytest.mark.parametrize("arguments", [[], ["verify"], ["runbook"], ["runbook", "lint"], ["queues", "show"]])
def test_h_is_help(pipestate: Command, arguments: list[str]) -> None:
    assert pipestate(*arguments, "-h") == pipestate(*arguments, "--help")


def test_a_misspelt_command_is_compared_with_all_that_there_are(pipestate: Command) -> None:
    assert "Did you mean 'reconcile'?" in pipestate("reconcil").err
    assert "Did you mean 'verify'" in pipestate("verif").err


def test_what_is_installed_is_what_pyproject_says() -> None:
    """Fails where pyproject.toml is newer than the installation: run `pip install -e .` again."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    for group, points in project["entry-points"].items():
        ours = [point for point in entry_points(group=group) if point.dist and point.dist.name == "pipestate"]
        assert {point.name: point.value for point in ours} == points


COMMANDS = [
    path
    for each in ("cli", "pipeline/cli", "pipeline/demo")
    for path in sorted((PACKAGE / each).glob("*.py"))
]


def commands_in(path: Path) -> dict[str, int]:
    """How many lines the body of each command of a file has, without its docstring."""
    source = path.read_text(encoding="utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    lengths = {}
    for node in functions:
        # A command says how it is called; what it is made of does not.
        if "Example: pipestate " in (ast.get_docstring(node) or ""):
            body = source.splitlines()[node.body[1].lineno - 1 : node.end_lineno]
            lengths[node.name] = sum(bool(line.strip()) for line in body)
    return lengths


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_command_is_short(path: Path) -> None:
    """Load, call the library function of the same name, render, exit."""
    assert {name: lines for name, lines in commands_in(path).items() if lines >= 20} == {}


def test_every_command_was_measured() -> None:
    names = {name for path in COMMANDS for name in commands_in(path)}
    groups = {"ledger", "fleet", "guard", "runbook", "queues"}
    assert {*OWN, *plugins.find_plugins(plugins.COMMANDS)} - groups <= names
    assert {"install", "prune", "lint", "show", "clear"} <= names
