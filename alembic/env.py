"""Alembic's way in; what happens is in pipestate.environment."""

from logging.config import fileConfig

from alembic import context

from pipestate import schema
from pipestate.environment import run
from pipestate.pipeline import environment

if context.config.config_file_name is not None and context.config.cmd_opts is not None:
    fileConfig(context.config.config_file_name, disable_existing_loggers=False)

run(
    context,
    metadata=schema.metadata,
    version_table=environment.VERSION_TABLE,
    registry=True,
    include_object=environment.is_ours,
    plugins=environment.PLUGINS,
    on_sqlite=environment.ON_SQLITE,
)
