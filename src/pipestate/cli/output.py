"""Output of commands: stdout or a file, in the chosen format."""

import errno
import io
import json
import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from pipestate.core.errors import ConfigError, Unreachable
from pipestate.core.text import json_text, print_lines, replace_text

if TYPE_CHECKING:
    from rich.console import Console

    from pipestate.ledger.latest import Latest
    from pipestate.project.find import Calls
    from pipestate.verify.report import Report


LOG_WIDTH = 100


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
        from pipestate.cli.formats.console import print_report

        print_report(report, console(), calls, verbose=verbose, most=most)
    else:
        text = render(report, form, calls, latest, verbose=verbose, most=most)
        put(text, output, at_once=form is Format.OPENMETRICS)
    if output is not None:
        from pipestate.cli.formats.text import closing_line

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

    from pipestate.cli.formats.console import print_report

    plain = Console(highlight=False, width=LOG_WIDTH, no_color=True, file=io.StringIO())
    print_report(report, plain, calls, verbose=verbose, most=most)
    assert isinstance(plain.file, io.StringIO)
    return plain.file.getvalue().rstrip()
