"""Alembic's way in; what happens is in pipestate.environment.migrate."""

from logging.config import fileConfig

from alembic import context

from pipestate.environment import run

if context.config.config_file_name is not None and context.config.cmd_opts is not None:
    fileConfig(context.config.config_file_name, disable_existing_loggers=False)

run(context)
