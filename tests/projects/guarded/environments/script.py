"""The offline half of an env.py as `alembic init` writes it."""

from alembic import context
from pipestate.environment import guard

guard(context)

context.configure(url=context.config.get_main_option("sqlalchemy.url"), literal_binds=True)
with context.begin_transaction():
    context.run_migrations()
