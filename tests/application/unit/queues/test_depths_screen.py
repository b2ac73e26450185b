"""The queues on the terminal: no column goes without being named."""

import io

import pytest
from rich.console import Console

from pipestate.pipeline.cli.queues import COLUMNS, print_depths
from pipestate.pipeline.queues.depths import Figures, QueueState
from pipestate.pipeline.queues.port import Depth

FULL = QueueState(Depth("compilation", 1_234, 2_345, 3_456, 4_567, 5_678, 6_789), Figures(7_890, 1, 9))
CALM = QueueState(Depth("ocr", deferred=7), Figures(7))


def seen(states: list[QueueState], width: int) -> str:
    screen = Console(file=io.StringIO(), width=width)
    print_depths(states, screen)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("states", [[FULL], [CALM], [FULL, CALM]])
def test_every_column_is_there_or_named_below(states: list[QueueState], width: int) -> None:
    screen = seen(states, width)
    assert [name for name in ("queue", *COLUMNS) if name not in screen] == []
    assert max(len(line) for line in screen.splitlines()) <= width
    assert "…" not in screen


def test_what_does_not_fit_beside_each_other_is_named_value_by_value() -> None:
    assert "queue: compilation  queued: 1234" in seen([FULL], 60)
    assert "0 in every queue: queued, started" in seen([CALM], 60)
