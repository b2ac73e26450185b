"""The shipped application's schema at head: `alembic check` compares the chain with it."""

from pipestate.pipeline.schema import *  # noqa: F403
from pipestate.pipeline.schema import __all__ as __all__
