"""Which gates the revision that runs has passed: where pages open it by several, each of them is promised.

The mark says that a gate was passed, not which one. Alembic gives one dictionary of options to every database that an
env.py configures, so what is noted there is forgotten when the next step begins.
"""

from alembic import op
from alembic.runtime.migration import MigrationContext

from pipestate.runbook.model import Phase, Runbook

_PASSED = "pipestate_passed_gates"


def forget_passed(context: MigrationContext) -> None:
    """Begin a step: nothing has been passed in it."""
    context.opts[_PASSED] = frozenset()


def note_passed(gate: str) -> None:
    """Note a gate that was open, or forced, or that has nothing to protect here."""
    options = op.get_context().opts
    options[_PASSED] = options.get(_PASSED, frozenset()) | {gate}


def has_passed(context: MigrationContext, runbook: Runbook, phase: Phase) -> bool:
    """Say whether the gate of this phase was passed in the step that runs."""
    return bool({phase.name, f"{runbook.name}/{phase.name}"} & context.opts.get(_PASSED, frozenset()))
