"""Queue section of alembic.ini: the queue and the function of each stage.

`[pipestate:queues]` has a line for `<stage>_job` and for `<stage>_coordinator`. Each line names the queue,
the import path of the function, and optionally a timeout. `backend` selects a queue other than RQ, and `url`
is its address; `redis_url` is RQ's address. `missing` names the application's function that lists missing
jobs.
"""

import importlib
import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from pipestate.core.errors import ConfigError
from pipestate.pipeline.queues.port import Backend, Destination, Obstacle, Queues, State
from pipestate.pipeline.stages import STAGES, step_of
from pipestate.project.configuration import read_ini

SECTION = "pipestate:queues"
SETTINGS = ("backend", "url", "redis_url", "missing")
SECONDS = {"s": 1, "m": 60, "h": 3600}
EXAMPLE = "ocr_job = ocr clerk.workers.ocr_page_job 10m"
RQ = "rq"

# Defaults for the queues of this migration.
DEFAULT_JOBS = {"ocr": Destination("ocr", "ocr_page_job")}
DEFAULT_COORDINATORS = {"ocr": Destination("compilation", "ocr_complete_coordinator")}


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """Destinations of all calls, and the queue backend."""

    jobs: Mapping[str, Destination] = field(default_factory=lambda: DEFAULT_JOBS)
    coordinators: Mapping[str, Destination] = field(default_factory=lambda: DEFAULT_COORDINATORS)
    missing: str | None = None
    backend: str = RQ
    url: str | None = None

    def coordinator(self, stage: str) -> Destination | None:
        """Return the coordinator of a stage; parallel stages share one, configured under any of them."""
        named = (self.coordinators.get(peer) for peer in (stage, *step_of(stage)))
        return next((place for place in named if place is not None), None)

    def queues(self) -> list[str]:
        return sorted({place.queue for place in (*self.jobs.values(), *self.coordinators.values())})

    def obstacles(self) -> tuple[Obstacle, Obstacle]:
        """Return the blocking jobs: deferred coordinators first, as they wait for the failed OCR jobs."""
        after, page = self.coordinators["ocr"], self.jobs["ocr"]
        return (
            Obstacle(after.queue, State.DEFERRED, after.name),
            Obstacle(page.queue, State.FAILED, page.name),
        )


def read_config(ini: Path) -> QueueConfig:
    """Read the section of that alembic.ini, with the queue names of this migration as defaults."""
    lines = read_ini(ini).section(SECTION) if ini.is_file() else {}
    jobs, coordinators = dict(DEFAULT_JOBS), dict(DEFAULT_COORDINATORS)
    for key, value in lines.items():
        stage, _, what = key.rpartition("_")
        if stage in STAGES and what == "job":
            jobs[stage] = _place(ini, key, value)
        elif stage in STAGES and what == "coordinator":
            coordinators[stage] = _place(ini, key, value)
        elif key not in SETTINGS:
            raise ConfigError(
                f"{ini}: [{SECTION}] has {key}; write <stage>_job or <stage>_coordinator, where a stage is "
                f"one of {', '.join(STAGES)}, or one of {', '.join(SETTINGS)}"
            )
    setting = {key: lines.get(key, "").strip() or None for key in SETTINGS}
    backend = setting["backend"] or RQ
    url = setting["redis_url" if backend == RQ else "url"]
    return QueueConfig(jobs, coordinators, setting["missing"], backend, url)


def _place(ini: Path, key: str, value: str) -> Destination:
    found = re.fullmatch(r"(\S+)\s+([\w.]+)(?:\s+(\d+)([smh]))?", value.strip())
    if found is None:
        raise ConfigError(
            f"{ini}: {key} in [{SECTION}] is {value!r}; write queue, function and, if need be, "
            f"a timeout, as in {EXAMPLE}"
        )
    queue, function, number, unit = found.groups()
    return Destination(queue, function, int(number) * SECONDS[unit] if number else None)


# Selection of the queue backend.


BACKENDS = {RQ: "pipestate.pipeline.queues.rq:connect"}


def open_queues(config: QueueConfig, redis_url: str | None = None) -> AbstractContextManager[Queues]:
    """Open the queue named in the ini; `redis_url` is the value of `--redis-url`."""
    backend = _load(config.backend)
    url = find_address(config, redis_url)
    if url is None and config.backend == RQ:
        raise ConfigError(
            "no Redis given: give --redis-url, or set REDIS_URL, "
            f"or redis_url under [{SECTION}] in alembic.ini"
        )
    if url is None:
        message = f"no queue given: write the url of {config.backend} under [{SECTION}] in alembic.ini"
        raise ConfigError(message)
    return backend(url)


def find_address(config: QueueConfig, redis_url: str | None = None) -> str | None:
    """Find the queue's address: for RQ the option, REDIS_URL, then the ini; for other backends the ini."""
    if config.backend == RQ:
        return redis_url or os.environ.get("REDIS_URL") or config.url
    if redis_url is not None:
        raise ConfigError(
            f"--redis-url is for RQ, and backend under [{SECTION}] in alembic.ini is {config.backend}: "
            "write its url there"
        )
    return config.url


def _load(name: str) -> Backend:
    module, colon, attribute = BACKENDS.get(name, name).partition(":")
    if not colon:
        message = f"[{SECTION}] names backend = {name}: write one of {', '.join(BACKENDS)}, or module:Class"
        raise ConfigError(message)
    try:
        backend: Backend = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module can raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        message = f"[{SECTION}] names backend = {name}, which cannot be imported: {reason}"
        raise ConfigError(message) from error
    return backend
