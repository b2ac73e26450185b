"""What the server in `programs` has done before it forks: commands are imported, the shipped pages are read."""

import importlib
import pkgutil
from contextlib import chdir
from pathlib import Path

import pipestate.cli
import pipestate.pipeline.cli
from pipestate.runbook.find import every_runbook
from programs import collect_seldom

USED = (
    "alembic.config",
    "pipestate.environment.migrate",
    "pipestate.gate",
    "pipestate.pipeline.reconcile",
    "pipestate.render.console",
    "psycopg2.extras",
    "rich.markdown",
    "rich.table",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
)
COMMANDS = (
    f"{package.__name__}.{module.name}"
    for package in (pipestate.cli, pipestate.pipeline.cli)
    for module in pkgutil.iter_modules(package.__path__)
)
for name in (*USED, *COMMANDS):
    importlib.import_module(name)

with chdir(Path(__file__).parents[1]):  # a page is known by its text, and by its path from there
    every_runbook(Path("runbooks"))

collect_seldom()  # a fork that does not look at all of this copies less of it
