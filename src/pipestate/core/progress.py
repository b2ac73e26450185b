"""Progress callbacks of long operations; the command renders the bar."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # done, total


def no_progress(done: int, total: int) -> None:
    """Ignore the progress."""


Checking = Callable[[str, int, int], None]  # check that begins, its number, total
