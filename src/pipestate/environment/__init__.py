"""What an env.py may call."""

from pipestate.environment.migrate import run
from pipestate.environment.names import include_name

__all__ = ["include_name", "run"]
