"""An env.py that leaves everything to pipestate."""

from alembic import context
from pipestate.environment import run

run(context)
