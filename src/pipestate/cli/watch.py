"""A picture on the alternate screen, redrawn every few seconds until Ctrl-C."""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipestate.cli.output import say
from pipestate.core.errors import ConfigError, PipestateError
from pipestate.database.interrupt import Interrupted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

TICK_S = 0.2  # delay until a resized window is redrawn

# Draws a picture for a number of columns.
Draw = Callable[[int], "RenderableType"]


def watch(look: Callable[[], Draw], every_s: float) -> None:
    """Draw the picture that `look` returns for the terminal's width, and repeat.

    The first call must succeed. Later errors, such as a lost connection or a half-edited runbook, appear below the
    last picture, and the call is repeated. Ctrl-C ends it with exit code 0.
    """
    if not sys.stdout.isatty():
        raise ConfigError("--watch draws on a terminal, and this is none: leave it out, or take --json")
    try:
        _show(look, every_s)
    except (KeyboardInterrupt, Interrupted):
        say("stopped watching; nothing was changed", err=True)


def refuse_json(asked: bool) -> None:
    if asked:
        raise ConfigError("--watch draws on a terminal, --json prints for a program: give one of them")


def _show(look: Callable[[], Draw], every_s: float) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    draw, problem = look(), ""
    with console.screen(hide_cursor=True):
        while True:
            _wait(console, draw, problem, every_s)
            try:
                draw, problem = look(), ""
            except Interrupted:
                raise
            except PipestateError as error:
                problem = str(error)


def _wait(console: "Console", draw: Draw, problem: str, every_s: float) -> None:
    """Draw, and redraw whenever the window changes its size, until the next update is due."""
    end, looked, size = time.monotonic() + every_s, datetime.now(UTC), None
    while time.monotonic() < end:
        if console.size != size:
            size = console.size
            _draw(console, draw, _footer(looked, problem, every_s))
        time.sleep(min(TICK_S, max(0.0, end - time.monotonic())))


def _footer(looked: datetime, problem: str, every_s: float) -> tuple[str, str]:
    """Write the time, or the error, with its style."""
    if problem:
        return f"{looked:%H:%M:%S} UTC: {problem}; trying again every {every_s:g} s", "bold red"
    return f"{looked:%H:%M:%S} UTC, every {every_s:g} s, Ctrl-C ends it", "dim"


def _draw(console: "Console", draw: Draw, footer: tuple[str, str]) -> None:
    """Fill the screen; the last line counts the lines that do not fit."""
    from rich.control import Control
    from rich.segment import Segment, Segments
    from rich.text import Text

    from pipestate.core.text import plain

    below = console.render_lines(Text(plain(footer[0]), footer[1]))
    lines = console.render_lines(draw(console.width))
    room = max(0, console.height - len(below))
    if len(lines) > room:
        more = Text(f"{len(lines) - room + 1} more lines: a higher window shows them", "dim")
        lines = [*lines[: max(0, room - 1)], *console.render_lines(more)]
    lines += [[Segment(" " * console.width)]] * (room - len(lines))
    shown = [*lines, *below][: console.height]
    apart = [segment for line in shown for segment in (*line, Segment.line())]
    console.print(Control.home(), Segments(apart[:-1]), end="")
