"""pipestate: runbooks that run, and destructive migrations that wait for their gate."""

from importlib.metadata import version

__version__ = version("pipestate")
