"""The shipped application's schema at head: `alembic check` compares the migrations with it."""

from pipestate.pipeline.schema import *  # noqa: F403
from pipestate.pipeline.schema import __all__ as __all__
