"""The same without transactions."""

from alembic import context
from pipestate.environment import guard

guard(context)

context.configure(
    url=context.config.get_main_option("sqlalchemy.url"), literal_binds=True, transactional_ddl=False
)
with context.begin_transaction():
    context.run_migrations()
