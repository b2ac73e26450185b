"""An env.py as `flask db init` writes it, without its comments, with the one line."""

from alembic import context
from flask import current_app
from pipestate.environment import guard

guard(context)
config = context.config


def get_engine():
    return current_app.extensions["migrate"].db.engine


config.set_main_option("sqlalchemy.url", str(get_engine().url).replace("%", "%%"))
target_db = current_app.extensions["migrate"].db


def run_migrations_online():
    conf_args = current_app.extensions["migrate"].configure_args
    with get_engine().connect() as connection:
        context.configure(connection=connection, target_metadata=target_db.metadata, **conf_args)
        with context.begin_transaction():
            context.run_migrations()


run_migrations_online()
