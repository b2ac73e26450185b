from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from pipestate.project.find import Calls
from pipestate.report.words import Summary, summarise
from pipestate.runbook.model import Level
from pipestate.status.model import PhaseStatus, RunbookStatus, SignOffStatus, Soak, Status
from pipestate.verify.report import DatabaseInfo, Gate, Outcome, Verdict

SIGNOFF = SignOffStatus("backup", "there is one", timedelta(days=1), 1, (), 1, None)
SOAK = Soak("soak", None, 3.0, 7.0, datetime(2026, 11, 4, tzinfo=UTC), None, passed=False)


def phase(name: str, gate: Gate, failing: Iterable[str] = (), opens: tuple[str, ...] = ()) -> PhaseStatus:
    checks = tuple(
        Verdict(check, Outcome.FAILED, Level.BLOCK, "n = 0", {}, "", "b.md:1", 1.0) for check in failing
    )
    signoffs, soaks = (SIGNOFF,) if "backup" in failing else (), (SOAK,) if "soak" in failing else ()
    return PhaseStatus(name, gate, opens, checks, signoffs, soaks, None, None, (), None)


def summary(*phases: PhaseStatus, revision: str | None = "a1", head: str | None = "b2") -> Summary:
    books = (RunbookStatus("book", "Book", "book.md", phases),) if phases else ()
    database = DatabaseInfo("postgresql://db/civic", "postgresql", "18.0", revision, head)
    at = datetime(2026, 11, 5, tzinfo=UTC)
    return summarise(Status(at, database, books, (), None, (), None, (), (), None), Calls())


@pytest.mark.parametrize(
    ("failing", "command"),
    [
        (["backup", "soak"], "pipestate attest book/two/backup --by YOU"),
        (["soak"], "pipestate verify --record"),
        (["backup", "stuck"], "pipestate gate book/two"),
    ],
)
def test_a_closed_gate_is_named_with_the_command_that_brings_it_nearer(
    failing: list[str], command: str
) -> None:
    found = summary(phase("one", Gate.OPEN), phase("two", Gate.CLOSED, failing))
    assert (found.state, found.sentence) == ("closed", "1 of 2 gates is closed: two")
    assert found.next == command


def test_open_gates_lead_to_the_revisions_that_they_open() -> None:
    assert summary(phase("one", Gate.OPEN, opens=("b2",))).next == "alembic upgrade head"
    assert summary(phase("one", Gate.OPEN)).next == "pipestate plan"
    assert summary(phase("one", Gate.OPEN), revision="b2").next is None


def test_before_the_first_phase_the_plan_is_next() -> None:
    found = summary(phase("one", Gate.AHEAD), revision=None)
    assert (found.state, found.sentence) == ("none", "No phase applies at revision base")
    assert found.next == "pipestate plan"
