"""An application that runs its revisions without Alembic's command line and without an env.py, as buildbot and zenml do."""

import sys

from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from pipestate.environment import guard
from sqlalchemy import create_engine

url, target, *options = sys.argv[1:]
scripts = ScriptDirectory.from_config(Config("alembic.ini"))


def steps(revision, context):
    if "--down" in options:
        return scripts._downgrade_revs(target, revision[0])
    return scripts._upgrade_revs(target, revision)


def run_as_zenml(connection):
    """Run the steps in an EnvironmentContext that is never entered, so `alembic.context` does not exist."""
    environment = EnvironmentContext(Config(), scripts)
    if "--guard" in options:
        guard(environment)
    environment.configure(connection=connection, render_as_batch=True, fn=steps)
    with environment.begin_transaction():
        environment.run_migrations()


def run_as_buildbot(connection):
    known = {"script": scripts} if "--script" in options else {}
    context = MigrationContext.configure(connection, opts={"fn": steps, **known})
    with Operations.context(context), context.begin_transaction():
        context.run_migrations()


with create_engine(url).connect() as connection:
    run_as_zenml(connection) if "--environment" in options else run_as_buildbot(connection)
