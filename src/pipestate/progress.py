"""Long work tells how far it is; the bar is the command's business."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # how many of how many


def untold(done: int, total: int) -> None:
    """A progress callback that does nothing."""


Checking = Callable[[str, int, int], None]  # which check begins, and how many of how many it is


def unwatched(check: str, number: int, total: int) -> None:
    """A callback for checks that does nothing."""
