"""The next step, from the migrations, where the database stands in it, and its gates."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipestate.project.find import Calls
from pipestate.project.graph import Migrations, Revision, make_migrations
from pipestate.status.plan import plan
from pipestate.verify.report import DatabaseInfo, Gate, PhaseReport, Report, RunbookReport


def migrations(**revisions: str) -> Migrations:
    """Make migrations of `id=what it follows`."""
    return make_migrations(
        [
            Revision(name, tuple(down.split()), (), (), name, Path(f"{name}.py"), 1)
            for name, down in revisions.items()
        ]
    )


def advice(of: Migrations, at: str | None, gate: Gate = Gate.CLOSED) -> str:
    """Return the advice where the phase orders/ready opens c3, and has this gate."""
    phase = PhaseReport("ready", gate, ("c3",), ())
    info = DatabaseInfo("postgresql:///shop", "postgresql", "18", at, " ".join(of.heads))
    runbook = RunbookReport("orders", "runbooks/orders.md", "", (phase,))
    return plan(of, Report(info, datetime.now(UTC), 0.0, (runbook,)), Calls()).advice


LINE = migrations(a1="", b2="a1", c3="b2", d4="c3")
BRANCHED = migrations(a1="", b2="a1", c3="b2", d4="b2")


@pytest.mark.parametrize(
    ("of", "at", "gate", "says"),
    [
        (migrations(), None, Gate.NOT_STARTED, "the project has no revision yet: alembic revision -m ..."),
        (LINE, None, Gate.NOT_STARTED, "alembic upgrade b2"),
        (LINE, "b2", Gate.CLOSED, "c3 waits for orders/ready: pipestate gate orders/ready"),
        (LINE, "b2", Gate.OPEN, "the gate is open: alembic upgrade head"),
        (LINE, "c3", Gate.FINISHED, "alembic upgrade d4"),
        (LINE, "d4", Gate.FINISHED, "nothing: the database is at head"),
        (LINE, "d4", Gate.CLOSED, "fix orders/ready: pipestate gate orders/ready"),
        (BRANCHED, "b2", Gate.CLOSED, "pipestate upgrade"),
        (BRANCHED, "d4", Gate.CLOSED, "c3 waits for orders/ready: pipestate gate orders/ready"),
        (BRANCHED, "d4", Gate.OPEN, "pipestate upgrade"),
    ],
)
def test_the_next_step(of: Migrations, at: str | None, gate: Gate, says: str) -> None:
    assert advice(of, at, gate) == says
