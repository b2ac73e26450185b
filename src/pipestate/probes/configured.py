"""Probes named in alembic.ini: they measure external systems for `observe`.

    [pipestate:observe]
    backlog = command /usr/local/bin/backlog --total

A line is `source = probe options`. The probe is built in, or an entry point of the group `pipestate.probes`: a
callable of the ini's path and the options. It returns numbers by name, or one number named after the source.
An empty value selects the probe with the name of the source. Only `statements` reads the database itself.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import ConfigError, PipestateError, Unreachable
from pipestate.core.plugins import probes
from pipestate.database.drivers import message
from pipestate.project.find import Project
from pipestate.project.graph import Position

SECTION = "pipestate:observe"
# Built-in names are reserved: an installed package cannot change the meaning of a line in the ini.
OWN = {
    "command": "pipestate.probes.command:probe",
}

STATEMENTS = "statements"

Probe = Callable[[Path, str], Any]


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
        _translated(ini, source, partial(_ask, ini, source, name, options))
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


def _translated(ini: Path, source: str, ask: Callable[[], dict[str, float]]) -> Probed:
    try:
        return Probed(source, ask())
    except ConfigError as error:
        return Probed(source, error=ConfigError(f"{ini}: {source} in [{SECTION}]: {error}"))
    except Unreachable as error:
        return Probed(source, error=Unreachable(f"{source}: {error}"))
    except PipestateError as error:
        return Probed(source, error=error)


def _ask(ini: Path, source: str, name: str, options: str) -> dict[str, float]:
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
        module, _, attribute = OWN[name].partition(":")
        return f"the probe {name}", getattr(import_module(module), attribute)
    known = probes()
    if name not in known:
        raise ConfigError(
            f"there is no probe {name}; there are {', '.join(sorted({*OWN, STATEMENTS, *known}))}"
        )
    return known[name].title, known[name].load()
