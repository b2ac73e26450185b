"""Probes named in alembic.ini: they measure external systems for `observe`.

    [pipestate:observe]
    backlog = command timeout=2m /usr/local/bin/backlog --total
    files_left = command sh -c 'ls /srv/inbox | wc -l'

A line is `source = probe options`. The probe is built in, or an entry point of the group `pipestate.probes`: a
callable of the ini's path and the options. It returns numbers by name, or one number named after the source.
An empty value selects the probe with the name of the source. Only `statements` reads the database itself.

The built-in probe `command` runs a program that prints a number. Words are split like in a shell, but the program
runs without one. Use `sh -c '…'` for shell syntax.
"""

import math
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.core.plugins import PROBES, find_plugins
from pipestate.core.text import parse_age, plain
from pipestate.database.drivers import message
from pipestate.project.find import Project
from pipestate.project.graph import Position

SECTION = "pipestate:observe"
TIMEOUT_S = 30.0
LONGEST_LINE = 200
_TIMEOUT = re.compile(r"timeout=(.*)")
STATEMENTS = "statements"

Probe = Callable[[Path, str], Any]


def run_command(ini: Path, options: str) -> float:
    """Run the program in the ini's directory, and return the printed number."""
    program, out, err = run_program(ini, options)
    try:
        number = float(out.strip())
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        printed = f"{plain(out.strip())[:LONGEST_LINE]!r}" if out.strip() else "nothing"
        raise Unreachable(f"{program} printed {printed} instead of a number{_first_line(err)}")
    return number


def run_program(ini: Path, options: str, given: str | None = None) -> tuple[str, str, str]:
    """Run a command line without a shell; return the program's name, its output and its errors.

    `given` is its standard input. Child processes end with it; it fails by its exit code or its time limit.
    """
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
    program = plain(words[0])
    process = None
    try:
        with _interrupt_later():
            process = subprocess.Popen(
                words,
                cwd=ini.resolve().parent if ini.is_file() else ini,
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        out, err = process.communicate(given, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        _end(process)
        raise Unreachable(f"{program} took longer than {timeout_s:g} s, and was ended") from error
    except (OSError, ValueError) as error:
        _end(process)
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"cannot run {program}: {plain(why)}") from error
    except BaseException:  # Ctrl-C
        _end(process)
        raise
    if process.returncode != 0:
        code = process.returncode
        ending = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise Unreachable(f"{program} ended with {ending}{_first_line(err)}")
    return program, out, err


@contextmanager
def _interrupt_later() -> Iterator[None]:
    """Handle Ctrl-C after this block: a program that has just started would go on, unknown to us."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    heard: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: heard.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        before(signal.SIGINT, heard[0])


def _end(process: "subprocess.Popen[str] | None") -> None:
    """Kill the program with its group; a process that left the group may hold the pipes, so nothing is read."""
    if process is None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    process.wait()


def _first_line(err: str) -> str:
    """Return the first line of stderr, escaped for display.

    >>> _first_line("\\n\\x1b[31mno\\nmore"), _first_line("")
    (': \\\\x1b[31mno', '')
    """
    first = next((line.strip() for line in err.splitlines() if line.strip()), "")
    return f": {plain(first)[:LONGEST_LINE]}" if first else ""


# Built-in names are reserved: an installed package cannot change the meaning of a line in the ini.
OWN: Mapping[str, Probe] = {"command": run_command}


@dataclass(frozen=True, slots=True)
class Probed:
    """The result of one line of the ini, or the reason for its failure."""

    source: str
    facts: Mapping[str, float] = field(default_factory=dict)
    error: PipestateError | None = None


def run_probes(project: Project) -> list[Probed]:
    """Run every probe in the ini. A failed probe is part of the result; the others still run."""
    ini = project.config or project.scripts
    return [
        _translated(ini, source, partial(_probe, ini, source, name, options))
        for source, name, options in _lines(project)
        if name != STATEMENTS
    ]


def run_statements_probe(project: Project, connection: Connection, position: Position) -> list[Probed]:
    """Record the calls of statements that pending contracts break, if the ini names that probe."""
    from pipestate.ledger.statements import observe_statements

    pending = position.known - position.applied

    def observe(options: str) -> dict[str, float]:
        given = options.strip()
        if given and not given.startswith("except="):
            raise ConfigError(f"there is no option {given}; there is except=ROLE,ROLE")
        roles = given.removeprefix("except=")
        try:
            with connection.begin_nested():
                return observe_statements(connection, pending, except_=list(filter(None, roles.split(","))))
        except DBAPIError as error:
            if error.connection_invalidated:
                raise
            first = message(error).partition("\n")[0]
            raise ConfigError(f"pg_stat_statements cannot be read: {first}") from error

    ini = project.config or project.scripts
    return [
        _translated(ini, source, partial(observe, options))
        for source, name, options in _lines(project)
        if name == STATEMENTS
    ]


def reads_statements(project: Project) -> bool:
    """Tell whether the ini names the probe that reads the database."""
    return any(name == STATEMENTS for _, name, _ in _lines(project))


def _lines(project: Project) -> Iterator[tuple[str, str, str]]:
    for source, line in project.lines(SECTION).items():
        name, *options = (line.strip() or source).split(None, 1)
        yield source, name, "".join(options)


def _translated(ini: Path, source: str, probe: Callable[[], dict[str, float]]) -> Probed:
    try:
        return Probed(source, probe())
    except ConfigError as error:
        return Probed(source, error=ConfigError(f"{ini}: {source} in [{SECTION}]: {error}"))
    except Unreachable as error:
        return Probed(source, error=Unreachable(f"{source}: {error}"))
    except PipestateError as error:
        return Probed(source, error=error)


def _probe(ini: Path, source: str, name: str, options: str) -> dict[str, float]:
    title, probe = _find(name)
    try:
        found = probe(ini, options)
        named = {source: found} if isinstance(found, int | float) else dict(found)
        facts = {str(fact): float(value) for fact, value in named.items()}
    except PipestateError:
        raise
    except Exception as error:  # any error of third-party code
        raise Unreachable(f"{title} failed: {type(error).__name__}: {error}") from error
    if wrong := [fact for fact, value in facts.items() if not math.isfinite(value)]:
        raise Unreachable(f"{title} has no number for {', '.join(wrong)}")
    return facts


def _find(name: str) -> tuple[str, Probe]:
    """Load the probe of that name; return its title for messages, too."""
    if name in OWN:
        return f"the probe {name}", OWN[name]
    known = find_plugins(PROBES)
    if name not in known:
        raise ConfigError(
            f"there is no probe {name}; there are {', '.join(sorted({*OWN, STATEMENTS, *known}))}"
        )
    return known[name].title, known[name].load()
