"""The probe of the job queues, for `pipestate observe`: it counts what blocks the pipeline."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pipestate.pipeline.queues.backend import find_address, open_queues
from pipestate.pipeline.queues.config import RQ, QueueConfig, read_config
from pipestate.pipeline.queues.port import Queues


def probe(ini: Path, options: str) -> Mapping[str, float]:
    """Count what blocks the queues that this ini names; return nothing where no Redis is named.

    The Redis is the one of REDIS_URL, else of the options, else `redis_url` under `[pipestate:queues]`.
    """
    named = read_config(ini)
    config = replace(named, url=options or named.url)
    if config.backend == RQ and find_address(config) is None:
        return {}
    with open_queues(config) as queues:
        return count_blocked(queues, config)


def count_blocked(queues: Queues, config: QueueConfig) -> dict[str, float]:
    """Count deferred coordinators and failed OCR jobs, the ids whose job is gone among them."""
    deferred, failed = config.obstacles()
    return {
        "deferred_coordinators": float(len(queues.blocked([deferred]))),
        "failed_ocr_jobs": float(len(queues.blocked([failed]))),
    }
