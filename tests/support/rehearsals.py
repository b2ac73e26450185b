"""Rehearsals as the tests call them: in this process, on a copy of a miniature project's database."""

from pathlib import Path

from pipestate.project.find import Named, find_project
from pipestate.project.revision_files import read_migrations
from pipestate.project.version_table import locator
from pipestate.rehearse.clone import Job
from support.servers import Database


def job_for(directory: Path, clone: Database, production: Database | None = None) -> Job:
    """What `pipestate rehearse --on` would do in that directory."""
    project = find_project(Named(config=directory / "alembic.ini"))
    migrations = read_migrations(project)
    known = production.url if production is not None else None
    return Job(clone.url, known, project, migrations, locator(project, migrations, None))
