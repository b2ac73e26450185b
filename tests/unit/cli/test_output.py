"""Sentences on a terminal."""

import io
import sys

import pytest

from pipestate.cli.output import say


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
