"""Programs that a project names, a probe or a notification: whatever they do, pipestate goes on, and none is left."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.probes import run_program

LARGE = "x" * 2**20
WAYS = {
    "it reads nothing of a large input": ("sh -c 'exit 0'", None),
    "it closes its input, and waits": ("timeout=1s sh -c 'exec <&-; exec sleep 600'", "longer than 1 s"),
    "it leaves a child in its group": ("timeout=1s sh -c 'sleep 600 & exit 0'", "longer than 1 s"),
    "it leaves a child in another session": (
        "timeout=1s sh -c 'setsid sleep 20 & exit 0'",
        "longer than 1 s",
    ),
    "it ends by a signal": ("sh -c 'kill -9 $$'", "ended with signal 9"),
    "it prints what a terminal obeys": (
        "sh -c 'printf \"\\033[2Jgone\" >&2; exit 4'",
        r"exit code 4: \\x1b\[2Jgone",
    ),
    "it is missing": ("/nowhere/notify", "cannot run /nowhere/notify: No such file"),
    "it is a directory": ("/tmp", "cannot run /tmp: Permission denied"),
    "its name has a null": ("a\0b", "cannot run a"),
    "its quotation never ends": ("sh -c 'exit", "never closed"),
}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_the_program_does_it_is_one_sentence_and_in_time(tmp_path: Path, way: str) -> None:
    command, said = WAYS[way]
    start = time.monotonic()
    if said is None:
        run_program(tmp_path, command, LARGE)
    else:
        with pytest.raises(PipestateError, match=said) as raised:
            run_program(tmp_path, command, LARGE)
        assert isinstance(raised.value, ConfigError | Unreachable)
        assert "\x1b" not in str(raised.value)
    assert time.monotonic() - start < 10


def test_ctrl_c_while_the_program_starts_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes when the program runs, and Python does not know of it yet."""
    started: list[int] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self.pid)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_program(tmp_path, "sleep 600")
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
