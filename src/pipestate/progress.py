"""Long work tells how far it is; the bar is the command's business."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # how many of how many


def untold(done: int, total: int) -> None:
    """A progress callback that does nothing."""
