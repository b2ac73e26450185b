"""What the server in `programs` has done before it forks: everything is imported, the shipped pages are read."""

import importlib
import pkgutil
from contextlib import chdir
from pathlib import Path

import pipestate
from pipestate.runbook.files import every_runbook
from support.programs import collect_seldom

USED = (
    "alembic.config",
    "logging.config",
    "psycopg2.extras",
    "redis.asyncio",
    "rich.markdown",
    "rich.table",
    "sqlalchemy.dialects.postgresql",
    "sqlalchemy.dialects.sqlite",
    "typer.rich_utils",
)
PROGRAMS = ("pipestate.__main__", "pipestate.rehearse.child", "pipestate.rehearse.copying.reaper")
OURS = (module.name for module in pkgutil.walk_packages(pipestate.__path__, "pipestate."))
for name in (*USED, *(name for name in OURS if name not in PROGRAMS)):
    importlib.import_module(name)

with chdir(Path(__file__).parents[2]):  # a page is known by its text, and by its path from there
    every_runbook(Path("runbooks"))

collect_seldom()  # a fork that does not look at all of this copies less of it
