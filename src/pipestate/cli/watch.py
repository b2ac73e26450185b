"""A picture that is drawn again every few seconds, on a screen of its own, until Ctrl-C."""

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pipestate.cli.output import say
from pipestate.errors import ConfigError, PipestateError
from pipestate.interrupt import Interrupted

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

TICK_S = 0.2  # a window that was made larger is filled this soon

# Draws a picture for a number of columns.
Draw = Callable[[int], "RenderableType"]


def watch(look: Callable[[], Draw], every_s: float) -> None:
    """Show what `look` returns, drawn for the width of the terminal, and look again.

    The first look must succeed. What goes wrong later, a lost connection or a page that is being edited, is shown
    above the last picture, and tried again. Ctrl-C is how it ends, so that is no failure.
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
    """Draw, and draw again whenever the window has changed its size, until it is time to look."""
    end, looked, size = time.monotonic() + every_s, datetime.now(UTC), None
    while time.monotonic() < end:
        if console.size != size:
            size = console.size
            _draw(console, draw, _footer(looked, problem, every_s))
        time.sleep(min(TICK_S, max(0.0, end - time.monotonic())))


def _footer(looked: datetime, problem: str, every_s: float) -> tuple[str, str]:
    """Say when this was, or what is wrong; with the style for it."""
    if problem:
        return f"{looked:%H:%M:%S} UTC: {problem}; trying again every {every_s:g} s", "bold red"
    return f"{looked:%H:%M:%S} UTC, every {every_s:g} s, Ctrl-C ends it", "dim"


def _draw(console: "Console", draw: Draw, footer: tuple[str, str]) -> None:
    """Fill the screen, over what was there; what does not fit is counted in the last line."""
    from rich.control import Control
    from rich.segment import Segment, Segments
    from rich.text import Text

    from pipestate.safe import plain

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
