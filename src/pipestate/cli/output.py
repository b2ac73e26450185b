"""Output of commands: stdout or a file, in the chosen format; progress of long work on stderr."""

import errno
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.core.progress import Progress, no_progress
from pipestate.core.text import json_text, plain, print_lines, replace_text

if TYPE_CHECKING:
    from rich.console import Console

    from pipestate.ledger.latest import Latest
    from pipestate.project.find import Calls
    from pipestate.verify.report import Report


LOG_WIDTH = 100
BAR_EVERY_S = 0.1


class Format(StrEnum):
    CONSOLE = "console"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"
    OPENMETRICS = "openmetrics"


class Plain(StrEnum):
    """The formats of other reports."""

    CONSOLE = "console"
    JSON = "json"
    MARKDOWN = "markdown"


def console() -> "Console":
    """Make a console with the terminal's colour and width; a pipe gets plain text, as wide as a log."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else 0  # 0 is also the width of a terminal that has none
    return Console(highlight=False, soft_wrap=True, width=width or LOG_WIDTH)


def say(sentence: str, *, err: bool = False) -> None:
    """Print a sentence, or lines; on a terminal they are broken between words, and keep their indentation."""
    print_lines(sentence, sys.stderr if err else sys.stdout)


def print_json(data: Any) -> None:
    print(dumped(data))


def print_answer(data: Any, lines: Iterable[str], *, json_: bool) -> None:
    """Print the data as JSON, or the lines."""
    if json_:
        print_json(data)
        return
    for line in lines:
        say(line)


def put_json_line(data: Any) -> None:
    """Print one line of JSON, and flush it: readers get each line at once."""
    print(dumped(data, indent=None), flush=True)


def dumped(data: Any, indent: int | None = 2) -> str:
    """Write data or frozen values as JSON that a terminal does not obey."""
    from pipestate.cli.formats.json import as_plain

    return json_text(json.dumps(as_plain(data), indent=indent, ensure_ascii=False, default=str))


def show(
    report: "Report",
    form: Format,
    output: Path | None,
    calls: "Calls",
    latest: "Latest | None" = None,
    *,
    verbose: bool = False,
    most: int | None = None,
) -> None:
    """Render the report, into a file if one is named; then print a file's answer and warnings on stderr."""
    if form is not Format.CONSOLE:
        put(render(report, form, calls, latest), output, at_once=form is Format.OPENMETRICS)
    else:
        from rich.console import Console

        from pipestate.cli.formats.verify import print_report

        page = io.StringIO()
        file = Console(file=page, highlight=False, width=LOG_WIDTH, force_terminal=False)
        print_report(report, file if output else console(), calls, verbose=verbose, most=most)
        if output is not None:
            put(page.getvalue().rstrip(), output)
    if output is not None:
        from pipestate.cli.formats.verify import closing_line

        say(f"wrote {output}. {closing_line(report, calls)}", err=True)
    warn(report.warnings)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr, after the answer."""
    sys.stdout.flush()
    for warning in warnings:
        say(f"warning: {warning}", err=True)


def refuse_unwritable(output: Path | None) -> None:
    """Refuse a file that cannot be written, before long work; accept devices."""
    if output is None or (output.exists() and not output.is_file() and not output.is_dir()):
        return
    if output.is_dir() or not os.access(output.parent, os.W_OK):
        raise ConfigError(
            f"cannot write {output}: its directory is missing or not writable; name another file"
        )


def put(text: str, output: Path | None, *, at_once: bool = False) -> None:
    """Print a text, or write it to a file; `at_once` replaces the file as a whole."""
    if output is None:
        print(text)
        return
    try:
        (replace_text if at_once else Path.write_text)(output, text + "\n", encoding="utf-8")
    except OSError as error:
        kind = Unreachable if error.errno in (errno.ENOSPC, errno.EDQUOT) else ConfigError
        raise kind(f"cannot write {output}: {error.strerror}") from error


def render(report: "Report", form: Format, calls: "Calls", latest: "Latest | None" = None) -> str:
    """Render the report for a program; import only the chosen format, so that commands start fast."""
    if form is Format.JSON:
        return dumped(report)
    if form is Format.OPENMETRICS:
        from pipestate.cli.formats.openmetrics import as_openmetrics

        return as_openmetrics(report, latest)
    from pipestate.cli.formats import ci

    if form is Format.JUNIT:
        return ci.as_junit(report)
    return ci.as_github(report, calls) if form is Format.GITHUB else ci.as_markdown(report, calls)


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
def stopwatch(after_s: float = 0.0) -> Iterator[Callable[[str], None]]:
    """Show the current step and its duration on a terminal, after this time; each new text restarts the clock.

    It refreshes twice a second, so as not to disturb measurements.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    now: list[Any] = ["connecting", time.monotonic()]

    def tell(text: str) -> None:
        now[:] = plain(text), time.monotonic()

    def line() -> Text:
        text, began = now
        return Text(f"{time.monotonic() - began:.0f} s, {text}", "dim", no_wrap=True, overflow="ellipsis")

    live = Live(
        get_renderable=line,
        console=Console(stderr=True),
        transient=True,
        refresh_per_second=2,
        redirect_stdout=False,
    )
    timer = threading.Timer(after_s, live.start)
    timer.daemon = True
    timer.start()
    try:
        yield tell
    finally:
        timer.cancel()
        timer.join()  # the timer may have begun to show
        live.stop()
