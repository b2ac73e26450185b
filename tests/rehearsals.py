"""Rehearsals as the tests call them: in this process, on a copy of a miniature project's database."""

from pathlib import Path

from bed import Database
from pipestate.chain.project import Named, find_project
from pipestate.chain.read import read_chain
from pipestate.chain.version_table import locator
from pipestate.rehearse.job import Job


def job_for(directory: Path, clone: Database, production: Database | None = None) -> Job:
    """What `pipestate rehearse --on` would be asked in that directory."""
    project = find_project(Named(config=directory / "alembic.ini"))
    chain = read_chain(project)
    known = production.url if production is not None else None
    return Job(clone.url, known, project, chain, locator(project, chain, None))
