"""Ctrl-C ends a survey, whenever it comes."""

import threading
from collections.abc import Iterator

import pytest

from pipestate.database.interrupt import stopped_together
from pipestate.fleet.list import survey


@pytest.fixture(autouse=True)
def not_stopped() -> Iterator[None]:
    """A process ends after Ctrl-C; the one of the tests goes on."""
    yield
    with stopped_together():
        pass


class Interrupting(list[int]):
    """Items that are still being handed out when Ctrl-C comes."""

    def __iter__(self) -> Iterator[int]:
        yield from (1, 2, 3)
        raise KeyboardInterrupt


def test_ctrl_c_while_the_items_are_handed_out_starts_no_further_one() -> None:
    called, may_end = [], threading.Event()
    threading.Timer(0.2, may_end.set).start()

    def call(item: int) -> int:
        called.append(item)
        may_end.wait(5)
        return item

    assert not survey(Interrupting([1, 2, 3]), call, 1, lambda _: None)
    assert called == [1]
