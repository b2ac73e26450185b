"""Options of the application's commands, and what they resolve to."""

import os
from pathlib import Path
from typing import Annotated

import typer

from pipestate.errors import ConfigError
from pipestate.pipeline.queues.config import Wiring

RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis-url",
        metavar="URL",
        help="The queues' Redis; else REDIS_URL, or redis_url under \\[pipestate:queues] in alembic.ini.",
        show_default=False,
    ),
]
StorageDir = Annotated[
    Path | None,
    typer.Option(
        "--storage-dir",
        metavar="D",
        help="Where the sites' files are; else STORAGE_DIR.",
        show_default=False,
        envvar="STORAGE_DIR",
        show_envvar=False,
    ),
]
ThresholdHours = Annotated[
    float, typer.Option("--threshold-hours", metavar="H", help="Untouched for so long is stuck.")
]


def redis(given: str | None, wiring: Wiring) -> str | None:
    """The first of: the option, REDIS_URL, alembic.ini."""
    return given or os.environ.get("REDIS_URL") or wiring.redis_url


def require_redis(given: str | None, wiring: Wiring) -> str:
    url = redis(given, wiring)
    if not url:
        raise ConfigError(
            "no Redis given: give --redis-url, or set REDIS_URL, "
            "or redis_url under [pipestate:queues] in alembic.ini"
        )
    return url
