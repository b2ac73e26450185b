"""The probes that an alembic.ini names: they ask the world outside, for `observe`.

    [pipestate:observe]
    waiting = sqs depth ${SQS_QUEUE_URL}
    open_tickets = http https://tickets.example.com/api/open path=$.total

A line is `source = probe options`. The probe is one of our own, or an entry point of the group `pipestate.probes`: a
callable of the ini's path and the options. It returns numbers by name, or one number, whose name is then the
source's. Without a value it is the probe of that name.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from pipestate.chain.project import Project
from pipestate.errors import ConfigError, PipestateError, Unreachable
from pipestate.plugins import probes

SECTION = "pipestate:observe"
# The names of our own cannot be taken: an installed package cannot change what a line of the ini means.
OWN = {
    "command": "pipestate.probes.command:probe",
    "http": "pipestate.probes.http:probe",
    "sqs": "pipestate.probes.sqs:probe",
}

Probe = Callable[[Path, str], Any]


@dataclass(frozen=True, slots=True)
class Probed:
    """What one line of the ini found, or why it found nothing."""

    source: str
    facts: Mapping[str, float] = field(default_factory=dict)
    error: PipestateError | None = None


def run_probes(project: Project) -> list[Probed]:
    """Ask every probe that the ini names. One that fails is in the result; the others are asked all the same."""
    ini = project.config or project.scripts
    return [_run(ini, source, line) for source, line in project.lines(SECTION).items()]


def _run(ini: Path, source: str, line: str) -> Probed:
    name, *options = (line.strip() or source).split(None, 1)
    try:
        return Probed(source, _ask(ini, source, name, "".join(options)))
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
    except Exception as error:  # whatever the code of somebody else's package raises
        raise Unreachable(f"{title} failed: {type(error).__name__}: {error}") from error
    if wrong := [fact for fact, value in facts.items() if not math.isfinite(value)]:
        raise Unreachable(f"{title} has no number for {', '.join(wrong)}")
    return facts


def _find(name: str) -> tuple[str, Probe]:
    """Load the probe of that name; return how messages call it, too."""
    if name in OWN:
        module, _, attribute = OWN[name].partition(":")
        return f"the probe {name}", getattr(import_module(module), attribute)
    known = probes()
    if name not in known:
        raise ConfigError(f"there is no probe {name}; there are {', '.join(sorted({*OWN, *known}))}")
    return known[name].title, known[name].load()
