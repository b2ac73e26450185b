"""The probe: what `pipestate observe` writes down about the queues."""

from pathlib import Path

from pipestate.pipeline.queues.backend import find_address, open_queues
from pipestate.pipeline.queues.config import RQ, QueueConfig, read_config
from pipestate.pipeline.queues.port import Queues


def probe(ini: Path, redis_url: str | None = None) -> dict[str, float]:
    """Count what blocks the queues that this ini names; count nothing where no Redis is named anywhere."""
    config = read_config(ini)
    if config.backend == RQ and find_address(config, redis_url) is None:
        return {}
    with open_queues(config, redis_url) as queues:
        return counts(queues, config)


def counts(queues: Queues, config: QueueConfig) -> dict[str, float]:
    """Count deferred coordinators and failed OCR jobs, the ids whose job is gone among them."""
    deferred, failed = config.obstacles()
    return {
        "deferred_coordinators": float(len(queues.blocked([deferred]))),
        "failed_ocr_jobs": float(len(queues.blocked([failed]))),
    }
