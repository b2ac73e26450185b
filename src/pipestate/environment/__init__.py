"""What an env.py may call."""

from pipestate.environment.migrate import run

__all__ = ["run"]
