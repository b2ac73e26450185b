"""The short form of `make faults`: each subject and each fault, at one instant in the middle."""

from collections.abc import Iterator

import pytest

from faults.documents import read_documents
from faults.strikes import strike
from faults.subjects import SUBJECTS
from faults.world import World, open_world


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as world:
        yield world


@pytest.mark.parametrize(
    ("subject", "fault", "seconds"),
    [
        ("upgrade", "terminate", 0.5),
        ("contract", "stop server", 0.6),
        ("downgrade", "terminate", 0.3),
        ("own_backfill", "stop server", 0.5),
        ("shipped_backfill", "terminate", 0.4),
        ("reconcile", "kill", 0.4),
        ("queues_clear", "kill", 0.6),
    ],
)
def test_after_a_fault_the_same_command_finishes_and_nothing_is_lost_or_doubled(
    world: World, subject: str, fault: str, seconds: float
) -> None:
    done = strike(world, SUBJECTS[subject], fault, seconds)
    assert (done.lost, done.tracebacks) == ((), ())


def test_whatever_a_page_or_a_criterion_says_it_is_read_or_refused() -> None:
    assert read_documents(200) == []
