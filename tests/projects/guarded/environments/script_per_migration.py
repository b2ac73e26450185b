"""The same with a transaction for each revision."""

from alembic import context
from pipestate.environment import guard

guard(context)

context.configure(
    url=context.config.get_main_option("sqlalchemy.url"), literal_binds=True, transaction_per_migration=True
)
with context.begin_transaction():
    context.run_migrations()
