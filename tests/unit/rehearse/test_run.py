from dataclasses import replace

import pytest

from pipestate.rehearse.child_process import Failure
from pipestate.rehearse.impact import Rehearsal, RevisionImpact
from pipestate.rehearse.run import as_record
from pipestate.rehearse.writes import BrokenWrite, Writes
from support.rehearsal_results import made_table

REVISION = RevisionImpact("b2", "versions/b2.py", 2000.0, (made_table(),))
REHEARSED = Rehearsal("postgresql://clone", "postgresql 18.4", "a1", "b2", 2100.0, 10.0, (REVISION,))


@pytest.mark.parametrize(
    "failed",
    [
        replace(REHEARSED, failure=Failure("no", None, 1)),
        replace(REHEARSED, writes=Writes(1, (), (BrokenWrite("orders", "UPDATE", "no field x"),))),
    ],
)
def test_after_a_failure_or_a_broken_write_no_check_passes(failed: Rehearsal) -> None:
    passed, kept = as_record(REHEARSED, {"b2": "1"}), as_record(failed, {"b2": "1"})
    assert (passed.ok, passed.longest_wait_ms, passed.bounded) == (True, 2000.0, True)
    assert (kept.ok, kept.longest_wait_ms, kept.bounded, failed.exit_code) == (False, None, None, 1)
