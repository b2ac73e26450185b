"""An env.py that needs the application, which is not installed where pipestate is."""

from acme_models import Base, settings  # a package that does not exist
from alembic import context
from sqlalchemy import create_engine

with create_engine(settings.url).connect() as connection:
    context.configure(connection=connection, target_metadata=Base.metadata)
    with context.begin_transaction():
        context.run_migrations()
