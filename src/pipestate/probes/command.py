"""Probe `command`: a program prints a number.

    backlog = command timeout=2m /usr/local/bin/backlog --total
    files_left = command sh -c 'ls /srv/inbox | wc -l'

Words are split like in a shell, but the program runs without one. Use `sh -c '…'` for shell syntax.
"""

import math
import os
import re
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from pipestate.core.durations import parse_age
from pipestate.core.errors import ConfigError, Unreachable
from pipestate.core.text import plain

TIMEOUT_S = 30.0
LONGEST_LINE = 200
_TIMEOUT = re.compile(r"timeout=(.*)")


def probe(ini: Path, options: str) -> float:
    """Run the program in the ini's directory, and return the printed number."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise ConfigError("a quotation mark is never closed: quote whole words, as in a shell") from error
    timeout_s = TIMEOUT_S
    if words and (found := _TIMEOUT.fullmatch(words[0])):
        timeout_s = parse_age(found[1], option="timeout=", units="hms").total_seconds()
        words = words[1:]
    if not words:
        raise ConfigError("write the command, for example timeout=30s /usr/local/bin/backlog --total")
    code, out, err = _run(words, ini.resolve().parent if ini.is_file() else ini, timeout_s)
    program = plain(words[0])
    if code != 0:
        raise Unreachable(f"{program} ended with {_ending(code)}{_first_line(err)}")
    return _number(program, out, err)


def _run(words: list[str], directory: Path, timeout_s: float) -> tuple[int, str, str]:
    """Run a program until it ends or times out; its child processes end with it."""
    try:
        process = subprocess.Popen(
            words,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot run {plain(words[0])}: {plain(why)}") from error
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        _end(process)
        raise Unreachable(f"{plain(words[0])} took longer than {timeout_s:g} s, and was ended") from error
    except BaseException:  # Ctrl-C
        _end(process)
        raise
    return process.returncode, out, err


def _end(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _number(program: str, out: str, err: str) -> float:
    try:
        number = float(out.strip())
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        printed = f"{plain(out.strip())[:LONGEST_LINE]!r}" if out.strip() else "nothing"
        raise Unreachable(f"{program} printed {printed} instead of a number{_first_line(err)}")
    return number


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _first_line(err: str) -> str:
    """Return the first line of stderr, escaped for display.

    >>> _first_line("\\n\\x1b[31mno\\nmore"), _first_line("")
    (': \\\\x1b[31mno', '')
    """
    first = next((line.strip() for line in err.splitlines() if line.strip()), "")
    return f": {plain(first)[:LONGEST_LINE]}" if first else ""
