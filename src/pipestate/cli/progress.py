"""Progress of long work, on stderr if that is a terminal; it disappears at the end."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from pipestate.core.progress import Checking, Progress, no_progress, unwatched
from pipestate.core.text import plain

BAR_EVERY_S = 0.1
CHECKING_AFTER_S = 1.0


@contextmanager
def progress(what: str, unit: str) -> Iterator[Progress]:
    """Show a bar with rate and time left; skip updates that come too fast."""
    if not sys.stderr.isatty():
        yield no_progress
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
    """Show the current step and its duration; each new text restarts the clock.

    It refreshes twice a second, so as not to disturb measurements.
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


@contextmanager
def checking() -> Iterator[Checking]:
    """Show the running check, its number and the duration, after the first second."""
    if not sys.stderr.isatty():
        yield unwatched
        return
    began, now = time.monotonic(), [""]

    def tell(check: str, number: int, total: int) -> None:
        now[0] = f"check {number} of {total}: {check}"

    with ExitStack() as shown:
        timer = threading.Timer(CHECKING_AFTER_S, lambda: _show(shown, now, began))
        timer.daemon = True
        timer.start()
        try:
            yield tell
        finally:
            timer.cancel()
            timer.join()  # the timer may have begun to show; the stack removes that


def _show(shown: ExitStack, now: list[str], began: float) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def line() -> Text:
        said = f"{time.monotonic() - began:.0f} s, {now[0] or 'connecting'}"
        return Text(said, "dim", no_wrap=True, overflow="ellipsis")

    console = Console(stderr=True)
    live = Live(
        get_renderable=line, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    )
    shown.enter_context(live)
