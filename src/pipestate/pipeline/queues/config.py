"""The queues' section of alembic.ini: which queue and which function stand for each stage.

`[pipestate:queues]` has a line for `<stage>_job` and for `<stage>_coordinator`, each with the queue, the
function as workers import it, and if need be a timeout. `backend` names another queue than RQ, `url` its
address; `redis_url` is RQ's. `missing` names the application's function that knows which jobs are missing.
"""

import configparser
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipestate.errors import ConfigError
from pipestate.pipeline.queues.port import Destination, Obstacle, State
from pipestate.pipeline.stages import STAGES, step_of

SECTION = "pipestate:queues"
SETTINGS = ("backend", "url", "redis_url", "missing")
SECONDS = {"s": 1, "m": 60, "h": 3600}
EXAMPLE = "ocr_job = ocr clerk.workers.ocr_page_job 10m"
RQ = "rq"

# What the queues of this migration hold where nothing else is said.
DEFAULT_JOBS = {"ocr": Destination("ocr", "ocr_page_job")}
DEFAULT_COORDINATORS = {"ocr": Destination("compilation", "ocr_complete_coordinator")}


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """The places of all calls, and which queue they are in."""

    jobs: Mapping[str, Destination] = field(default_factory=lambda: DEFAULT_JOBS)
    coordinators: Mapping[str, Destination] = field(default_factory=lambda: DEFAULT_COORDINATORS)
    missing: str | None = None
    backend: str = RQ
    url: str | None = None

    def coordinator(self, stage: str) -> Destination | None:
        """One coordinator follows all stages that run side by side: it may be named for any of them."""
        named = (self.coordinators.get(peer) for peer in (stage, *step_of(stage)))
        return next((place for place in named if place is not None), None)

    def queues(self) -> list[str]:
        return sorted({place.queue for place in (*self.jobs.values(), *self.coordinators.values())})

    def obstacles(self) -> tuple[Obstacle, Obstacle]:
        """What blocks the pipeline: deferred coordinators first, for they wait for the failed OCR jobs."""
        after, page = self.coordinators["ocr"], self.jobs["ocr"]
        return (
            Obstacle(after.queue, State.DEFERRED, after.name),
            Obstacle(page.queue, State.FAILED, page.name),
        )


def read_config(ini: Path) -> QueueConfig:
    """Read the section of that alembic.ini, over what this migration's queues are called."""
    parser = _parsed(ini)
    if not parser.has_section(SECTION):
        return QueueConfig()
    jobs, coordinators = dict(DEFAULT_JOBS), dict(DEFAULT_COORDINATORS)
    for key, value in parser.items(SECTION):
        stage, _, what = key.rpartition("_")
        if stage in STAGES and what == "job":
            jobs[stage] = _place(ini, key, value)
        elif stage in STAGES and what == "coordinator":
            coordinators[stage] = _place(ini, key, value)
        elif key not in SETTINGS and key not in parser.defaults():
            raise ConfigError(
                f"{ini}: [{SECTION}] has {key}; write <stage>_job or <stage>_coordinator, where a stage is "
                f"one of {', '.join(STAGES)}, or one of {', '.join(SETTINGS)}"
            )
    setting = {key: parser.get(SECTION, key, fallback="").strip() or None for key in SETTINGS}
    backend = setting["backend"] or RQ
    url = setting["redis_url" if backend == RQ else "url"]
    return QueueConfig(jobs, coordinators, setting["missing"], backend, url)


def _parsed(ini: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser({"here": str(ini.resolve().parent)}, interpolation=None)
    try:
        parser.read(ini, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        # Its message has lines of its own, and names the file as it was opened.
        raise ConfigError(f"{ini} cannot be read: {' '.join(str(error).split())}; fix it there") from error
    return parser


def _place(ini: Path, key: str, value: str) -> Destination:
    found = re.fullmatch(r"(\S+)\s+([\w.]+)(?:\s+(\d+)([smh]))?", value.strip())
    if found is None:
        raise ConfigError(
            f"{ini}: {key} in [{SECTION}] is {value!r}; write queue, function and, if need be, "
            f"a timeout, as in {EXAMPLE}"
        )
    queue, function, number, unit = found.groups()
    return Destination(queue, function, int(number) * SECONDS[unit] if number else None)
