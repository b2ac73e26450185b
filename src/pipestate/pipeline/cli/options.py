"""Options of the application's commands, and what they open."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.cli.options import project_ini

if TYPE_CHECKING:
    from pipestate.pipeline.queues.config import QueueConfig
    from pipestate.pipeline.queues.port import Queues

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


@contextmanager
def open_queues(ini: Path | None, redis_url: str | None) -> Iterator[tuple["Queues", "QueueConfig"]]:
    """Open the queues of this project, with what its alembic.ini says about them."""
    from pipestate.pipeline.queues import backend
    from pipestate.pipeline.queues.config import read_config

    config = read_config(project_ini(ini))
    with backend.open_queues(config, redis_url) as queues:
        yield queues, config
