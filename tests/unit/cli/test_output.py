"""Sentences on a terminal."""

import io
import sys

import pytest

from pipestate.cli.output import LOG_WIDTH, console, say


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(monkeypatch: pytest.MonkeyPatch, sentence: str, columns: int) -> list[str]:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    say(sentence)
    return screen.getvalue().splitlines()


def test_a_line_that_fits_stays_one_and_a_longer_one_keeps_its_indentation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = "    certain   SHARE; not rewritten"
    assert said(monkeypatch, line, len(line)) == [line]
    assert said(monkeypatch, line, len(line) - 1) == ["    certain   SHARE; not", "        rewritten"]


@pytest.mark.parametrize(("columns", "width"), [("72", 72), ("0", LOG_WIDTH), ("", LOG_WIDTH)])
def test_a_pipe_has_the_width_of_columns_or_that_of_a_log(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    """Some logs and containers set COLUMNS=0, and a screen of no width shows nothing."""
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", columns)
    assert console().width == width
