"""What kind of clone is wanted, and what there is where it cannot be had."""

import re
from dataclasses import dataclass

from pipestate.errors import ConfigError

UNITS = {"KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
RECIPES = "give --on a clone of another kind: a restored backup, a branch of a managed server, or CREATE DATABASE … TEMPLATE"


@dataclass(frozen=True, slots=True)
class WantedClone:
    """What is copied: at most so many bytes; without rows; and whether the clone stays."""

    max_bytes: int
    schema_only: bool = False
    keep: bool = False


def read_size(text: str) -> int:
    """Read a size such as `500MB` or `10GB`.

    >>> read_size("500MB"), read_size("1.5 gb")
    (524288000, 1610612736)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]B)", text.strip().upper())
    if found is None or not float(found[1]):
        raise ConfigError(f"--max-size {text}: write a size such as 500MB or 10GB")
    return int(float(found[1]) * UNITS[found[2]])
