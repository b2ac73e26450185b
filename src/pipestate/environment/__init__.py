"""What an env.py may call."""

from pipestate.environment.guard import guard
from pipestate.environment.migrate import run
from pipestate.environment.own_tables import include_name

__all__ = ["guard", "include_name", "run"]
