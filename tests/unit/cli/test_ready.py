"""Values that are ready are passed on; the others are still converted and checked by Typer."""

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from pipestate.cli.commands import build

Command = Any
SEEN: list[object] = []
LOG = Path("paint.log")


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def paint(
    name: str,
    words: Annotated[list[str] | None, typer.Option("--word")] = None,
    colour: Colour = Colour.RED,
    times: Annotated[int, typer.Option(min=1)] = 1,
    share: float = 0.5,
    dry: bool = False,
) -> None:
    SEEN[:] = [name, words, colour, times, share, dry]


def store(output: Path | None = None, log: Path = LOG) -> None:
    SEEN[:] = [output, log]


def painted(*arguments: str) -> tuple[int, list[object]]:
    return run(paint, *arguments)


def run(command: Callable[..., None], *arguments: str) -> tuple[int, list[object]]:
    """Run a command with the shortcut and without it, and see that both do the same."""
    SEEN.clear()
    app = typer.Typer()
    app.command()(command)
    plain = CliRunner().invoke(app, arguments)
    expected = list(SEEN)
    SEEN.clear()
    code = 0
    try:
        build(command.__name__, command).main(list(arguments), standalone_mode=False)
    except Exception as error:
        code = getattr(error, "exit_code", 1)
    assert (code, SEEN) == (plain.exit_code, expected), "as without the shortcut"
    return code, list(SEEN)


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (["wall"], ["wall", None, Colour.RED, 1, 0.5, False]),
        (["wall", "--word", "a", "--word", "b"], ["wall", ["a", "b"], Colour.RED, 1, 0.5, False]),
        (["wall", "--colour", "blue", "--dry"], ["wall", None, Colour.BLUE, 1, 0.5, True]),
        (["wall", "--times", "3", "--share", "1e-2"], ["wall", None, Colour.RED, 3, 0.01, False]),
        (["wall", "--times", "10", "--share", "0.25"], ["wall", None, Colour.RED, 10, 0.25, False]),
        (["wall", "--times", "007", "--share", "2"], ["wall", None, Colour.RED, 7, 2.0, False]),
    ],
)
def test_values_arrive_as_typer_gives_them(arguments: list[str], seen: list[object]) -> None:
    assert painted(*arguments) == (0, seen)


@pytest.mark.parametrize(
    "wrong", [["--times", "0"], ["--times", "many"], ["--colour", "green"], ["--share", "x"]]
)
def test_a_wrong_value_is_wrong_usage(wrong: list[str]) -> None:
    assert painted("wall", *wrong) == (2, [])


def test_a_missing_argument_is_wrong_usage() -> None:
    assert painted() == (2, [])


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ([], [None, LOG]),
        (["--output", "a/b"], [Path("a/b"), LOG]),
        (["--output", "-"], [Path("-"), LOG]),
        (["--output", ""], [Path(), LOG]),
        (["--log", "."], [None, Path()]),
        (["--log", "/dev/null/x"], [None, Path("/dev/null/x")]),
    ],
)
def test_a_path_arrives_as_typer_gives_it(arguments: list[str], seen: list[object]) -> None:
    assert run(store, *arguments) == (0, seen)


def test_a_path_that_may_not_be_read_is_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    assert run(store, "--output", str(tmp_path)) == (2, [])
    assert run(store, "--output", str(tmp_path / "new")) == (0, [tmp_path / "new", LOG])


def read(name: Annotated[Path, typer.Argument(exists=True)]) -> None:
    SEEN[:] = [name]


def enter(name: Annotated[Path, typer.Argument(file_okay=False)]) -> None:
    SEEN[:] = [name]


def test_a_path_of_which_more_is_wanted_is_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "file"
    assert run(read, str(file)) == (2, [])
    file.touch()
    assert run(read, str(file)) == (0, [file])
    assert run(enter, str(file)) == (2, [])
