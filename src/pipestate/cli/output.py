"""Output of commands: stdout or a file, in the chosen format; progress of long work on stderr."""

import errno
import io
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.core.progress import Checking, Progress, no_progress
from pipestate.core.text import json_text, plain, print_lines, replace_text

if TYPE_CHECKING:
    from rich.console import Console

    from pipestate.ledger.latest import Latest
    from pipestate.project.find import Calls
    from pipestate.verify.report import Report


LOG_WIDTH = 100
BAR_EVERY_S = 0.1
CHECKING_AFTER_S = 1.0


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
    return Console(highlight=False, soft_wrap=True, width=int(columns) if columns.isdigit() else LOG_WIDTH)


def say(sentence: str, *, err: bool = False) -> None:
    """Print a sentence, or lines; on a terminal they are broken between words, and keep their indentation."""
    print_lines(sentence, sys.stderr if err else sys.stdout)


def print_json(data: Any) -> None:
    print(dumped(data))


def print_answer(data: Any, lines: Iterable[str], *, json_: bool) -> None:
    """Print the data as JSON, or the lines."""
    if json_:
        print_json(data)
    else:
        for line in lines:
            say(line)


def put_json_line(data: Any) -> None:
    """Print one line of JSON, and flush it: readers get each line at once."""
    print(json_text(json.dumps(data, ensure_ascii=False, default=str)), flush=True)


def dumped(data: Any) -> str:
    """Write data as JSON that a terminal does not obey."""
    return json_text(json.dumps(data, indent=2, ensure_ascii=False, default=str))


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
    if form is Format.CONSOLE and output is None:
        from pipestate.cli.formats.verify import print_report

        print_report(report, console(), calls, verbose=verbose, most=most)
    else:
        text = render(report, form, calls, latest, verbose=verbose, most=most)
        put(text, output, at_once=form is Format.OPENMETRICS)
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
        raise ConfigError(f"cannot write {output}: there is no such directory, or it may not be written to")


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


def render(
    report: "Report",
    form: Format,
    calls: "Calls",
    latest: "Latest | None" = None,
    *,
    verbose: bool = False,
    most: int | None = None,
) -> str:
    """Render the report; import only the chosen format, so that commands start fast."""
    if form is Format.JSON:
        from pipestate.cli.formats.json import as_json

        return as_json(report)
    if form is Format.JUNIT:
        from pipestate.cli.formats.ci import as_junit

        return as_junit(report)
    if form is Format.GITHUB:
        from pipestate.cli.formats.ci import as_github

        return as_github(report, calls)
    if form is Format.MARKDOWN:
        from pipestate.cli.formats.ci import as_markdown

        return as_markdown(report, calls)
    if form is Format.OPENMETRICS:
        from pipestate.cli.formats.openmetrics import as_openmetrics

        return as_openmetrics(report, latest)
    if form is not Format.CONSOLE:
        assert_never(form)
    from rich.console import Console

    from pipestate.cli.formats.verify import print_report

    plain = Console(highlight=False, width=LOG_WIDTH, no_color=True, file=io.StringIO())
    print_report(report, plain, calls, verbose=verbose, most=most)
    assert isinstance(plain.file, io.StringIO)
    return plain.file.getvalue().rstrip()


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
def checking() -> Iterator[Checking | None]:
    """Show the running check, its number and the duration, after the first second."""
    if not sys.stderr.isatty():
        yield None
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
