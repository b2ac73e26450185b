"""Options of the application's commands, and what they resolve to."""

import os
from pathlib import Path
from typing import Annotated

import typer

from pipestate.chain.project import Named, Project, find_project
from pipestate.chain.read import read_chain
from pipestate.errors import ConfigError
from pipestate.pipeline.wiring import Wiring

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


def require_ours(project: Project) -> Path:
    """Return the ini of a project that has the pipeline's chain; any other is refused, with what it has."""
    shipped = find_project(Named(shipped=True))
    if project.scripts.resolve() != shipped.scripts.resolve():
        there = {(revision.id, revision.path.name) for revision in read_chain(project)}
        missing = [each for each in read_chain(shipped) if (each.id, each.path.name) not in there]
        if missing:
            raise ConfigError(
                f"this command is for the pipeline that comes with pipestate, and the chain of {project.scripts} is "
                f"another one: it has no {missing[0].path.name}; --shipped or --config names the right project"
            )
    return project.config or project.scripts


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
