"""Which queue and which function stand for a stage's jobs and for its coordinator.

The section `[pipestate:queues]` of alembic.ini says it: a line for `<stage>_job` and for
`<stage>_coordinator`, each with the queue, the function as workers import it, and if need be a timeout.
"""

import configparser
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipestate.errors import ConfigError
from pipestate.pipeline.stages import STAGES, step_of

SECTION = "pipestate:queues"
SECONDS = {"s": 1, "m": 60, "h": 3600}
EXAMPLE = "ocr_job = ocr clerk.workers.ocr_page_job 10m"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call goes. Without the module it can be recognised in a queue, but not enqueued."""

    queue: str
    function: str
    timeout: int | None = None

    @property
    def name(self) -> str:
        return self.function.rpartition(".")[2]

    @property
    def importable(self) -> bool:
        return "." in self.function


# What the queues of this migration hold where nothing else is said.
DEFAULT_JOBS = {"ocr": Place("ocr", "ocr_page_job")}
DEFAULT_COORDINATORS = {"ocr": Place("compilation", "ocr_complete_coordinator")}


@dataclass(frozen=True, slots=True)
class Wiring:
    """All places, and the application's own answer to which jobs of a stage are missing."""

    jobs: Mapping[str, Place] = field(default_factory=lambda: DEFAULT_JOBS)
    coordinators: Mapping[str, Place] = field(default_factory=lambda: DEFAULT_COORDINATORS)
    missing: str | None = None
    redis_url: str | None = None

    def coordinator(self, stage: str) -> Place | None:
        """One follows all stages that run side by side: it may be named for any of them."""
        named = (self.coordinators.get(peer) for peer in (stage, *step_of(stage)))
        return next((place for place in named if place is not None), None)

    def queues(self) -> list[str]:
        return sorted({place.queue for place in (*self.jobs.values(), *self.coordinators.values())})


def read_wiring(ini: Path) -> Wiring:
    """The section of that alembic.ini, over what this migration's queues are called."""
    parser = _parsed(ini)
    if not parser.has_section(SECTION):
        return Wiring()
    jobs, coordinators = dict(DEFAULT_JOBS), dict(DEFAULT_COORDINATORS)
    for key, value in parser.items(SECTION):
        stage, _, what = key.rpartition("_")
        if stage in STAGES and what == "job":
            jobs[stage] = _place(ini, key, value)
        elif stage in STAGES and what == "coordinator":
            coordinators[stage] = _place(ini, key, value)
        elif key not in ("missing", "redis_url") and key not in parser.defaults():
            raise ConfigError(
                f"{ini}: [{SECTION}] has {key}; write <stage>_job or <stage>_coordinator, "
                f"where a stage is one of {', '.join(STAGES)}"
            )
    url = parser.get(SECTION, "redis_url", fallback=None)
    return Wiring(jobs, coordinators, parser.get(SECTION, "missing", fallback=None), url)


def _parsed(ini: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser({"here": str(ini.resolve().parent)}, interpolation=None)
    try:
        parser.read(ini, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        # Its message has lines of its own, and names the file as it was opened.
        raise ConfigError(f"{ini} cannot be read: {' '.join(str(error).split())}; mend it there") from error
    return parser


def _place(ini: Path, key: str, value: str) -> Place:
    found = re.fullmatch(r"(\S+)\s+([\w.]+)(?:\s+(\d+)([smh]))?", value.strip())
    if found is None:
        raise ConfigError(
            f"{ini}: {key} in [{SECTION}] is {value!r}; write queue, function and, if need be, "
            f"a timeout, as in {EXAMPLE}"
        )
    queue, function, number, unit = found.groups()
    return Place(queue, function, int(number) * SECONDS[unit] if number else None)
