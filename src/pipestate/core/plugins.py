"""Plugins of installed packages: commands, probes, history lines, and the default backfill.

A package offers each plugin as an entry point of one of four groups. Plugins are found by name and imported
on use, so a broken plugin affects only itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pipestate.core.errors import ConfigError

COMMANDS = "pipestate.commands"
PROBES = "pipestate.probes"
HISTORY = "pipestate.history"
BACKFILLS = "pipestate.backfills"
KINDS = {COMMANDS: "command", PROBES: "probe", HISTORY: "history", BACKFILLS: "default backfill"}


@dataclass(frozen=True, slots=True)
class Plugin:
    """A name in one of the groups, and the entry points that claim it; several are a clash."""

    group: str
    name: str
    points: tuple[EntryPoint, ...]

    @property
    def title(self) -> str:
        """Return the name and its distribution, for messages."""
        return f"the {KINDS[self.group]} {self.name} of {' and '.join(map(_distribution, self.points))}"

    @property
    def is_of_application(self) -> bool:
        """Tell whether it belongs to the shipped application; other projects cannot use it."""
        return all(point.value.startswith("pipestate.pipeline.") for point in self.points)

    def load(self) -> Any:
        """Import the entry point; raise ConfigError if two claim the name or the import fails."""
        if len(self.points) > 1:
            raise ConfigError(f"{self.title} is offered more than once: uninstall one of them")
        try:
            return self.points[0].load()
        except Exception as error:  # any error of third-party code
            raise self.broken(error) from error

    def broken(self, error: Exception) -> ConfigError:
        """Return an error that names this plugin and the reason for its failure."""
        reason = " ".join(str(error).split()) or type(error).__name__
        return ConfigError(f"{self.title} cannot be loaded: {reason}; update or uninstall that package")


def find_plugins(group: str) -> Mapping[str, Plugin]:
    """Find the plugins of a group by name, without importing them; docs/reference/extending.md describes each group."""
    claims: dict[str, dict[tuple[str, str], EntryPoint]] = {}
    for point in entry_points(group=group):
        claims.setdefault(point.name, {})[_distribution(point), point.value] = point
    return {name: Plugin(group, name, tuple(points.values())) for name, points in sorted(claims.items())}


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
