"""An application that upgrades its database inside a transaction of its own."""

import sys

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

config = Config("alembic.ini")
engine = create_engine(config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection, connection.begin() as transaction:
    connection.exec_driver_sql("INSERT INTO approvals (what) VALUES ('by the caller')")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    print("upgraded")
    if sys.argv[1] == "roll back":
        transaction.rollback()
