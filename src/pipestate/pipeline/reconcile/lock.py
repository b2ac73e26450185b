"""Lock between reconciliations; it ends with its holder, even after a kill."""

from contextlib import AbstractContextManager

from sqlalchemy import Engine

from pipestate.pipeline.reconcile.engine import engine_of


def reconcile_lock(engine: Engine) -> AbstractContextManager[bool]:
    """Hold the reconcile lock; yield False when another run has it."""
    return engine_of(engine).hold_lock(engine)
