"""Values that are ready are passed on; the others are still converted and checked by Typer."""

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
    output: Path | None = None,
    log: Path = LOG,
) -> None:
    SEEN[:] = [name, words, colour, times, share, dry]
    if (output, log) != (None, LOG):
        SEEN.extend([output, log])


def painted(*arguments: str) -> tuple[int, list[object]]:
    SEEN.clear()
    app = typer.Typer()
    app.command()(paint)
    plain = CliRunner().invoke(app, arguments)
    expected = list(SEEN)
    SEEN.clear()
    code = 0
    try:
        build("paint", paint).main(list(arguments), standalone_mode=False)
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
        (["wall", "--output", "a/b"], ["wall", None, Colour.RED, 1, 0.5, False, Path("a/b"), LOG]),
        (["wall", "--output", "-"], ["wall", None, Colour.RED, 1, 0.5, False, Path("-"), LOG]),
        (["wall", "--log", "."], ["wall", None, Colour.RED, 1, 0.5, False, None, Path()]),
        (["wall", "--output", ""], ["wall", None, Colour.RED, 1, 0.5, False, Path(), LOG]),
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


def test_a_path_that_must_exist_is_looked_at() -> None:
    def read(name: Annotated[Path, typer.Argument(exists=True)]) -> None:
        del name

    with pytest.raises(Exception, match="does not exist"):
        build("read", read).main(["nowhere"], standalone_mode=False)
