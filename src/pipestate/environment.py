"""Functions for an env.py: the guard, a filter for autogenerate, and a whole env.py."""

from pipestate.migration.environment import run
from pipestate.migration.guard import guard, include_name

__all__ = ["guard", "include_name", "run"]
