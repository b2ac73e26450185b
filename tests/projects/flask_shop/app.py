"""An application of Flask, whose `flask db upgrade` migrates its database."""

import os

from flask import Flask
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy

app = Flask(__name__)
app.config["SQLALCHEMY_DATABASE_URI"] = os.environ["SHOP_DATABASE"]
migrate = Migrate(app, SQLAlchemy(app), transaction_per_migration=True)
