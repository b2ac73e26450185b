"""Waves and shards: parts of a fleet that are upgraded in turn, or on several machines."""

import hashlib
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pipestate.core.errors import ConfigError

DEFAULT_WAVES = "1,10%,100%"
INDEX = "JOB_COMPLETION_INDEX"  # set by a Kubernetes Indexed Job; it counts from 0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several parts of a fleet, numbered from 1."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def holds(self, identity: Sequence[object]) -> bool:
        """Tell whether a tenant belongs to this shard, by its address: a longer list moves no tenant."""
        digest = hashlib.sha256(repr(tuple(identity)).encode()).digest()
        return int.from_bytes(digest[:8], "big") % self.of == self.number - 1


def parse_shard(text: str, environ: Mapping[str, str] = os.environ) -> Shard:
    """Parse `3/20`, the third of twenty; or `20`, numbered by JOB_COMPLETION_INDEX.

    >>> parse_shard("3/20"), parse_shard("20", {"JOB_COMPLETION_INDEX": "2"})
    (Shard(number=3, of=20), Shard(number=3, of=20))
    """
    found = re.fullmatch(r"(?:(\d{1,6})/)?(\d{1,6})", text.strip())
    if found is None:
        raise ConfigError(f"--shard {text}: write 3/20 for the third of twenty, or 20 beside {INDEX}")
    number = found[1]
    if number is None:
        index = environ.get(INDEX, "").strip()
        if not index.isdecimal():
            raise ConfigError(
                f"--shard {text} takes its number from {INDEX}, which is not set: write 1/{text}"
            )
        number = str(int(index) + 1)
    shard = Shard(int(number), int(found[2]))
    if not 1 <= shard.number <= shard.of:
        raise ConfigError(f"--shard {shard}: shards count from 1 to {shard.of}")
    return shard


def parse_waves(text: str) -> tuple[tuple[int, bool], ...]:
    """Parse the end of each wave: a number of databases, or with True a percentage of all.

    >>> parse_waves("1,10%,100%")
    ((1, False), (10, True), (100, True))
    """
    ends = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,7})(%?)\s*", part)
        if found is None or int(found[1]) == 0 or (found[2] and int(found[1]) > 100):
            raise ConfigError(f"--waves {text}: write how far each wave goes, as in {DEFAULT_WAVES}")
        ends.append((int(found[1]), bool(found[2])))
    return tuple(ends)


def cut(tenants: Sequence[T], ends: Sequence[tuple[int, bool]]) -> Iterator[Sequence[T]]:
    """Cut a list into waves; skip a wave that ends where the previous one ended.

    >>> [list(wave) for wave in cut("abcdefghijkl", parse_waves("1,10%,50%"))]
    [['a'], ['b'], ['c', 'd', 'e', 'f']]
    """
    done = 0
    for number, of_all in ends:
        end = math.ceil(len(tenants) * number / 100) if of_all else min(number, len(tenants))
        if end > done:
            yield tenants[done:end]
            done = end
