"""An env.py that takes its database from settings of its own, whatever anybody else says."""

from pathlib import Path

from alembic import context
from sqlalchemy import create_engine

url = Path(context.config.config_file_name).with_name("settings.txt").read_text(encoding="utf-8")
with create_engine(url).connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
