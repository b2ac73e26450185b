"""The probes that an alembic.ini names: they ask the world outside, for `observe`.

    [pipestate:observe]
    rq =
    backlog = rq redis://localhost:6379/1

A line is `source = probe options`. The probe is an entry point of the group `pipestate.probes`: a callable of
the ini's path and the options, which returns numbers by name. Without a value it is the probe of that name.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipestate.chain.project import Project
from pipestate.errors import ConfigError, PipestateError, Unreachable
from pipestate.plugins import probes

SECTION = "pipestate:observe"


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
    name, _, options = (line.strip() or source).partition(" ")
    try:
        return Probed(source, _ask(ini, name, options.strip()))
    except PipestateError as error:
        return Probed(source, error=error)


def _ask(ini: Path, name: str, options: str) -> dict[str, float]:
    known = probes()
    if name not in known:
        there = f"there are {', '.join(known)}" if known else "none is installed"
        raise ConfigError(f"{ini}: [{SECTION}] names the probe {name}, which is not installed; {there}")
    probe = known[name].load()
    try:
        found = dict(probe(ini, options))
        facts = {str(fact): float(value) for fact, value in found.items()}
    except PipestateError:
        raise
    except Exception as error:  # whatever the code of somebody else's package raises
        raise Unreachable(f"{known[name].title} failed: {type(error).__name__}: {error}") from error
    if wrong := [fact for fact, value in facts.items() if not math.isfinite(value)]:
        raise Unreachable(f"{known[name].title} has no number for {', '.join(wrong)}")
    return facts
