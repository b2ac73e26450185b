"""Every command explains itself, has an example that can be typed, and stands in the documentation."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from pipestate.cli.main import app
from support.alembic_runs import ROOT
from support.documentation import PAGES
from support.terminal import Typed, in_terminals, plain


@dataclass(frozen=True)
class Verb:
    """A command of the command line, however deep."""

    name: str
    command: Any

    @property
    def is_group(self) -> bool:
        return hasattr(self.command, "commands")


def verbs(command: Any, name: str = "pipestate") -> Iterator[Verb]:
    yield Verb(name, command)
    if hasattr(command, "commands"):
        context = typer.Context(command)
        for part in command.list_commands(context):
            yield from verbs(command.get_command(context, part), f"{name} {part}")


ALL = list(verbs(typer.main.get_command(app)))
COMMANDS = [verb for verb in ALL if not verb.is_group]


def test_all_commands_are_looked_at() -> None:
    names = {verb.name for verb in ALL}
    assert {"pipestate verify", "pipestate runbook lint", "pipestate queues clear", "pipestate demo"} <= names


EXAMPLE = re.compile(r"^\s*Example: (.+)$", re.MULTILINE)


def by_name(verb: Verb) -> str:
    return verb.name


@pytest.mark.parametrize("verb", ALL, ids=by_name)
def test_help_is_shown(verb: Verb) -> None:
    done = CliRunner().invoke(app, [*verb.name.split()[1:], "--help"])
    assert done.exit_code == 0, done.output
    assert verb.is_group or "Example: " in done.output


@pytest.mark.parametrize("verb", [verb for verb in ALL if verb.is_group], ids=by_name)
def test_a_group_alone_shows_its_help(verb: Verb) -> None:
    done = CliRunner().invoke(app, verb.name.split()[1:])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")
    assert "Commands:" in done.stderr


@pytest.fixture(scope="module")
def pages() -> dict[tuple[str, int], str]:
    """The help of every command, in terminals of two widths."""
    answered = {
        (verb.name, columns): Typed([*verb.name.split()[1:], "-h"], columns)
        for verb in ALL
        for columns in (60, 80)
    }
    seen = (plain(written) for written in in_terminals(list(answered.values()), cwd=ROOT))
    return dict(zip(answered, seen, strict=True))


@pytest.mark.parametrize("verb", ALL, ids=by_name)
def test_help_names_every_option_as_it_is_written_however_narrow_it_is(
    verb: Verb, pages: dict[tuple[str, int], str]
) -> None:
    context = typer.Context(verb.command)
    for columns in (60, 80):
        page = pages[verb.name, columns]
        assert [line for line in page.splitlines() if len(line) > columns or line != line.rstrip()] == []
        assert not re.search(r"<\w+>|TEXT\b.*TEXT|\b(INTEGER|FLOAT|range)\b", page.replace("<time>", ""))
        for parameter in verb.command.get_params(context):
            for name in parameter.opts if parameter.opts[0].startswith("-") else ():
                assert re.search(rf"^  (-\w, )?{name}\b", page, re.MULTILINE), f"{name} at {columns}"


def test_a_value_is_shown_as_people_write_it(pages: dict[tuple[str, int], str]) -> None:
    for name, shown in {
        "pipestate purge": "--older-than 30d",
        "pipestate rehearse": "--max-wait 500ms",
        "pipestate verify": "-o, --output FILE",
        "pipestate attest": "Usage: pipestate attest --by WHO [OPTIONS]",
        "pipestate runbook lint": "Usage: pipestate runbook lint [OPTIONS] [PATH]...",
        "pipestate gate": "Usage: pipestate gate [OPTIONS] [RUNBOOK/]PHASE",
    }.items():
        assert shown in pages[name, 60], name


def test_what_packages_add_stands_apart(pages: dict[tuple[str, int], str]) -> None:
    own, _, added = pages["pipestate", 80].partition("Commands that installed packages add:")
    assert "  verify " in own
    assert "  reconcile " in added


def test_square_brackets_in_a_help_text_are_not_markup() -> None:
    shown = CliRunner().invoke(app, ["queues", "show", "--help"]).output
    assert "[pipestate:queues]" in shown


@pytest.mark.parametrize("verb", ALL, ids=by_name)
def test_every_argument_and_option_has_help(verb: Verb) -> None:
    assert verb.command.help
    for parameter in verb.command.params:
        is_typers_own = parameter.name in ("install_completion", "show_completion")
        assert is_typers_own or (parameter.help or "").strip(), f"{verb.name}: {parameter.name}"


@pytest.mark.parametrize("verb", COMMANDS, ids=by_name)
def test_the_example_is_a_command_line_that_would_be_understood(verb: Verb) -> None:
    found = EXAMPLE.search(verb.command.help)
    assert found, f"{verb.name} has no `Example: `"
    line = found[1].partition(" && ")[0]
    assert f"{line} ".startswith(f"{verb.name} ")
    words = shlex.split(line.removeprefix(verb.name))
    verb.command.make_context(verb.name, words).close()


@pytest.mark.parametrize("verb", COMMANDS, ids=by_name)
def test_every_command_stands_in_the_documentation(verb: Verb) -> None:
    assert any(re.search(rf"\b{verb.name}\b", page.read_text()) for page in PAGES), verb.name


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("pipestate reco", ["reconcile"]),
        ("pipestate gate rea", ["readiness"]),
        ("pipestate verify queue", ["queue-cutover"]),
        ("pipestate attest backup", ["backup-taken"]),
        ("pipestate gate nowhere", []),
    ],
)
def test_the_tab_key_knows_commands_and_the_runbooks_names(typed: str, offered: list[str]) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    done = CliRunner().invoke(
        app, [], prog_name="pipestate", env={**words, "_PIPESTATE_COMPLETE": "complete_bash"}
    )
    assert done.output.split() == offered
