"""The command line in this process: arguments in, exit code and both outputs back."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from pipestate.cli.main import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def pipestate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `pipestate ...` as main() does, with its one place for errors."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["pipestate", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Done(int(str(ended.value.code or 0)), said.out, said.err)

    return run
