"""A bar or a line for long work: on stderr, where that is a terminal; nothing otherwise."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipestate.progress import Progress, untold
from pipestate.safe import plain

BAR_EVERY_S = 0.1


@contextmanager
def progress(what: str, unit: str) -> Iterator[Progress]:
    """Rate and time left beside it; what it is told too often, it leaves out."""
    if not sys.stderr.isatty():
        yield untold
        return
    import rich.progress
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    rate = TextColumn("{task.fields[rate]} " + f"{unit}/s")
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    with rich.progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, rate="–")
        shown = [0.0]

        def tell(done: int, total: int) -> None:
            if done < total and time.monotonic() - shown[0] < BAR_EVERY_S:
                return
            shown[0] = time.monotonic()
            speed = bar.tasks[0].speed
            bar.update(task, completed=done, total=total, rate="–" if speed is None else f"{speed:,.0f}")

        yield tell


@contextmanager
def stopwatch() -> Iterator[Callable[[str], None]]:
    """Show a line with what runs now and how long it has; each text that is told begins anew.

    It is drawn twice a second: what is measured meanwhile must not notice.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    import rich.progress
    from rich.console import Console
    from rich.progress import TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    screen = Console(stderr=True)
    with rich.progress.Progress(*columns, console=screen, transient=True, refresh_per_second=2) as line:
        task = line.add_task("")
        yield lambda text: line.reset(task, description=plain(text), total=None)
