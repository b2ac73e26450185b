"""An application that runs its revisions without Alembic's command line and without an env.py, as buildbot and zenml do."""

import sys

from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

url, target, *options = sys.argv[1:]
scripts = ScriptDirectory.from_config(Config("alembic.ini"))


def steps(revision, context):
    if "--down" in options:
        return scripts._downgrade_revs(target, revision[0])
    return scripts._upgrade_revs(target, revision)


with create_engine(url).connect() as connection:
    known = {"script": scripts} if "--script" in options else {}
    context = MigrationContext.configure(connection, opts={"fn": steps, **known})
    with Operations.context(context), context.begin_transaction():
        context.run_migrations()
