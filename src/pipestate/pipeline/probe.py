"""The probe of the job queues, for `pipestate observe`."""

import os
from collections.abc import Mapping
from pathlib import Path

from pipestate.pipeline.queues.config import read_wiring
from pipestate.pipeline.queues.rq.registries import counts


def probe(ini: Path, options: str) -> Mapping[str, float]:
    """Count what stands in the way; return nothing where no Redis is named.

    The Redis is the one of REDIS_URL, else of the options, else `redis_url` under `[pipestate:queues]`.
    """
    wiring = read_wiring(ini)
    url = os.environ.get("REDIS_URL") or options or wiring.redis_url
    return counts(url, wiring) if url else {}
