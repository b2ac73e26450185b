"""A backfill waits for replicas, and its patience ends."""

from typing import Any, cast

import pytest
from sqlalchemy.exc import DBAPIError

from pipestate.backfill import loop
from pipestate.backfill.loop import LARGEST, SHORTEST_S, SMALLEST, TARGET_S, BatchLoop, Pace
from pipestate.core.errors import Unreachable


class Replicas:
    """An engine whose replicas catch up, as far as they do."""

    def __init__(self, *behind: float) -> None:
        self.behind = list(behind)

    def lag(self, _connection: Any) -> float:
        return self.behind.pop(0) if len(self.behind) > 1 else self.behind[0]


class Waiting(BatchLoop[None]):
    """A loop that only waits."""

    def __init__(self, replicas: Any, max_lag: float | None) -> None:
        self.connection, self.engine, self.max_lag_s = cast("Any", None), replicas, max_lag
        self.said: list[str] = []
        self.on_wait, self.quiet_until = self.said.append, 0.0

    def batch(self, size: int) -> None: ...
    def committed(self, done: None) -> bool:
        return False

    def refused(self, error: DBAPIError) -> None: ...


def waits(replicas: Any, max_lag: float | None) -> list[str]:
    waiting = Waiting(replicas, max_lag)
    waiting.wait_for_replicas()
    return waiting.said


def test_it_waits_until_the_slowest_replica_is_near_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "FIRST_PAUSE_S", 0.0)
    replicas = Replicas(9.5, 4.0, 0.2)
    assert waits(replicas, 1.0) == ["a replica is 9.5 s behind: waiting until it is at most 1 s"]
    assert replicas.behind == [0.2]
    assert waits(Replicas(9.5), None) == []


def test_its_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(loop, "LAG_PATIENCE_S", 0.01)
    with pytest.raises(Unreachable, match=r"more than 1 s behind .* finished batches are kept"):
        waits(Replicas(9.5), 1.0)


def test_a_size_is_found_that_takes_the_time_that_is_wanted() -> None:
    pace = Pace()
    for _ in range(20):
        pace = pace.after(pace.size / 60_000)  # so many rows a second
    assert 10_000 <= pace.size <= 12_000
    for _ in range(20):
        pace = pace.after(pace.size / 2_000)
    assert pace.size == pytest.approx(400, rel=0.05)
    assert Pace(LARGEST).after(0.01).size == LARGEST
    assert Pace(SMALLEST).after(60).size == SMALLEST


def test_where_somebody_waits_batches_get_shorter_and_grow_again() -> None:
    pace = Pace(10_000)
    for _ in range(9):
        pace = pace.after(pace.size / 50_000, waited_for=True)
    assert pace.target_s == SHORTEST_S
    assert pace.size == pytest.approx(2_500, rel=0.05)
    for _ in range(9):
        pace = pace.after(pace.size / 50_000)
    assert pace.target_s == TARGET_S
    assert pace.size == pytest.approx(10_000, rel=0.05)
