"""The options of a probe, as they stand in the ini: words, and `name=value`, quoted as in a shell.

`${NAME}` is an environment variable, so that no token need be written down; `${now}` and `${now-1h}` are moments
in UTC. A value that comes from the environment is never shown.
"""

import os
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pipestate.errors import ConfigError
from pipestate.ledger.ages import parse_age

_NAMED = re.compile(r"([a-z_]+)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_MOMENT = re.compile(r"now(?:-(.+))?")


@dataclass(frozen=True, slots=True)
class Options:
    """The words in their order, and every value of each name."""

    words: tuple[str, ...]
    named: Mapping[str, tuple[str, ...]]

    def one(self, name: str) -> str | None:
        """Return the value of a name, None without one; ConfigError where it was given twice."""
        values = self.named.get(name, ())
        if len(values) > 1:
            raise ConfigError(f"{name}= stands there twice: give it once")
        return values[0] if values else None

    def seconds(self, name: str, otherwise: float) -> float:
        """Return a time such as `30s` in seconds."""
        text = self.one(name)
        return parse_age(text, option=f"{name}=", units="hms").total_seconds() if text else otherwise


def parse_options(text: str, *, names: Collection[str]) -> Options:
    """Split the options and fill in what `${…}` names; ConfigError with what there is for an unknown name.

    >>> parse_options("depth https://host/jobs?a=b region='eu-west-1'", names=["region"]).named
    {'region': ('eu-west-1',)}
    """
    words: list[str] = []
    named: dict[str, tuple[str, ...]] = {}
    for word in split(text):
        found = _NAMED.fullmatch(word)
        if found is None:
            words.append(expand(word))
        elif found[1] in names:
            named[found[1]] = (*named.get(found[1], ()), expand(found[2]))
        else:
            there = ", ".join(f"{name}=" for name in names)
            raise ConfigError(f"there is no option {found[1]}=; there are {there}")
    return Options(tuple(words), named)


def split(text: str) -> list[str]:
    """Split words as a shell does."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError("a quotation mark is never closed: quote whole words, as in a shell") from error


def expand(text: str) -> str:
    """Fill in environment variables and moments."""
    return _VARIABLE.sub(lambda found: _value(found[1]), text)


def _value(name: str) -> str:
    if moment := _MOMENT.fullmatch(name):
        ago = parse_age(moment[1], option="${now-…}", units="dhms") if moment[1] else None
        now = datetime.now(UTC) - ago if ago else datetime.now(UTC)
        return now.isoformat(timespec="seconds").replace("+00:00", "Z")
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConfigError(f"the environment variable {name or '${}'} is not set")
    return value
