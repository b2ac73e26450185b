from typing import Any

import pytest

from pipestate.rehearse.impact import LockEncounter, Rehearsal, RevisionImpact
from support.rehearsal_results import made_table


def encounter(*, gave_up: bool, waited_ms: float = 2000.0) -> LockEncounter:
    return LockEncounter("b2", "orders", gave_up, waited_ms)


@pytest.mark.parametrize(
    ("rows", "production", "scale"),
    [
        (10, None, 1.0),
        (10, 5, 1.0),
        (10, 10, 1.0),
        (10, 45, 4.5),
        (10, 100, 10.0),
        (10, 101, None),
        (0, 1, None),
    ],
)
def test_estimates_grow_with_productions_rows_up_to_ten_times(
    rows: int, production: int | None, scale: float | None
) -> None:
    table = made_table(rows=rows, production_rows=production)
    assert table.scale == scale
    assert table.production_stall_ms == (None if scale is None else 2000.0 * scale)


@pytest.mark.parametrize(
    ("overrides", "bounded"),
    [
        ({"modes": ("ShareLock",)}, None),
        ({"lock_timeout_ms": None}, None),
        ({"lock_timeout_ms": 200.0}, True),
        ({"lock_timeout_ms": 0.0, "unbounded": True}, False),
        ({"lock_timeout_ms": 0.0, "unbounded": True, "encounter": encounter(gave_up=True)}, True),
        ({"lock_timeout_ms": 200.0, "encounter": encounter(gave_up=False)}, False),
        ({"lock_timeout_ms": 5000.0, "encounter": encounter(gave_up=False)}, True),
        ({"lock_timeout_ms": None, "encounter": encounter(gave_up=False)}, False),
    ],
)
def test_a_trial_outweighs_what_lock_timeout_says(overrides: dict[str, Any], bounded: bool | None) -> None:
    assert made_table(**overrides).bounded is bounded


def test_one_unbounded_wait_makes_the_whole_unbounded_and_one_unknown_makes_it_unknown() -> None:
    def bounded(*timeouts: float | None) -> bool | None:
        tables = [made_table(lock_timeout_ms=each, unbounded=each == 0) for each in timeouts]
        revision = RevisionImpact("b2", "b2.py", 1.0, tuple(tables))
        return Rehearsal("clone", "18", None, "b2", 1.0, 0.0, (revision,)).bounded

    assert [bounded(), bounded(200), bounded(200, None), bounded(200, None, 0)] == [True, True, None, False]
