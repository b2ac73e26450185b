"""An env.py that takes the connection of whoever called Alembic."""

from alembic import context
from pipestate.environment import guard

guard(context)

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
