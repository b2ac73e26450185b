"""Commands of the shipped application."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipestate.core.errors import OtherMigrations
from pipestate.project.find import Named, Project, find_project
from pipestate.project.revision_files import read_migrations

if TYPE_CHECKING:
    from pipestate.pipeline.queues.config import QueueConfig
    from pipestate.pipeline.queues.port import Queues


RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis-url",
        metavar="URL",
        help="The queues' Redis; else REDIS_URL, or redis_url under [pipestate:queues] in alembic.ini.",
        show_default=False,
    ),
]
StorageDir = Annotated[
    Path | None,
    typer.Option(
        "--storage-dir",
        metavar="DIR",
        help="Where the sites' files are; else STORAGE_DIR.",
        show_default=False,
        envvar="STORAGE_DIR",
        show_envvar=False,
    ),
]
ThresholdHours = Annotated[
    float,
    typer.Option(
        "--threshold-hours", metavar="HOURS", help="Hours without an update after which a site is stuck."
    ),
]


def require_ours(project: Project) -> Path:
    """Return the ini of a project with the pipeline's migrations; refuse others and name a missing revision."""
    shipped = find_project(Named(shipped=True))
    if project.scripts.resolve() != shipped.scripts.resolve():
        there = {(revision.id, revision.path.name) for revision in read_migrations(project)}
        missing = [each for each in read_migrations(shipped) if (each.id, each.path.name) not in there]
        if missing:
            raise OtherMigrations(
                "this command is for the pipeline that comes with pipestate, and "
                f"{project.scripts} has other migrations: {missing[0].path.name} is missing; name the right project with "
                "--shipped or --config"
            )
    return project.config or project.scripts


@contextmanager
def open_queues(project: Project, redis_url: str | None) -> Iterator[tuple["Queues", "QueueConfig"]]:
    """Open the queues of this project, with the configuration in its alembic.ini."""
    from pipestate.pipeline.queues import config as backend
    from pipestate.pipeline.queues.config import read_config

    config = read_config(require_ours(project))
    with backend.open_queues(config, redis_url) as queues:
        yield queues, config
