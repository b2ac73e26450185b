"""Where results go: stdout or a file, in the format that was asked for."""

import errno
import io
import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from pipestate.errors import ConfigError, Unreachable
from pipestate.paths import replace_text
from pipestate.safe import json_text, plain_lines

if TYPE_CHECKING:
    from rich.console import Console

    from pipestate.chain.calls import Calls
    from pipestate.ledger.latest import Latest
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
    """The formats of what is no report of checks."""

    CONSOLE = "console"
    JSON = "json"
    MARKDOWN = "markdown"


def console() -> "Console":
    """Colour and width as the terminal has them; plain text, as wide as a log, into a pipe."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    columns = os.environ.get("COLUMNS", "")
    return Console(highlight=False, soft_wrap=True, width=int(columns) if columns.isdigit() else LOG_WIDTH)


def say(sentence: str, *, err: bool = False) -> None:
    """Print a sentence, or lines; on a terminal they are broken between words, and keep their indentation."""
    stream = sys.stderr if err else sys.stdout
    sentence = plain_lines(sentence)
    if not stream.isatty():
        print(sentence, file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    screen = Console(file=stream, highlight=False)
    for line in sentence.split("\n"):
        if Text(line).cell_len <= screen.width:
            screen.print(Text(line), soft_wrap=True)
            continue
        indent = len(line) - len(line.lstrip(" "))
        rest = indent + min(indent, 4)  # what belongs to an item stands further in than the next item
        for number, part in enumerate(Text(line[indent:]).wrap(screen, screen.width - rest) or [Text()]):
            part.rstrip()
            screen.print(Text(" " * (rest if number else indent)).append_text(part), soft_wrap=True)


def print_json(data: Any) -> None:
    print(dumped(data))


def put_json_line(data: Any) -> None:
    """Print one line of JSON at once: whoever reads it should not wait for the others."""
    print(json_text(json.dumps(data, ensure_ascii=False, default=str)), flush=True)


def dumped(data: Any) -> str:
    """Write data as JSON that a terminal does not obey."""
    return json_text(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def show(
    report: "Report", form: Format, output: Path | None, calls: "Calls", latest: "Latest | None" = None
) -> None:
    """Render the report; into the file, if one is named. The answer then goes to stderr, as warnings do."""
    for warning in report.warnings:
        say(f"warning: {warning}", err=True)
    if form is Format.CONSOLE and output is None:
        from pipestate.render.console import print_report

        print_report(report, console(), calls)
        return
    put(render(report, form, calls, latest), output, at_once=form is Format.OPENMETRICS)
    if output is not None:
        from pipestate.render.text import closing_line

        say(f"wrote {output}. {closing_line(report, calls)}", err=True)


def refuse_unwritable(output: Path | None) -> None:
    """Refuse a file that cannot be written, before long work is done for it; a device is nobody's new file."""
    if output is None or (output.exists() and not output.is_file() and not output.is_dir()):
        return
    if output.is_dir() or not os.access(output.parent, os.W_OK):
        raise ConfigError(f"cannot write {output}: there is no such directory, or it may not be written to")


def put(text: str, output: Path | None, *, at_once: bool = False) -> None:
    """Print a text, or write it to a file; `at_once` never lets anybody read a half of it."""
    if output is None:
        print(text)
        return
    try:
        (replace_text if at_once else Path.write_text)(output, text + "\n", encoding="utf-8")
    except OSError as error:
        kind = Unreachable if error.errno in (errno.ENOSPC, errno.EDQUOT) else ConfigError
        raise kind(f"cannot write {output}: {error.strerror}") from error


def render(report: "Report", form: Format, calls: "Calls", latest: "Latest | None" = None) -> str:
    """Formats are loaded when they are used: a command starts no slower for those it does not need."""
    if form is Format.JSON:
        from pipestate.render.machine import as_json

        return as_json(report)
    if form is Format.JUNIT:
        from pipestate.render.junit import as_junit

        return as_junit(report)
    if form is Format.GITHUB:
        from pipestate.render.github import as_github

        return as_github(report, calls)
    if form is Format.MARKDOWN:
        from pipestate.render.markdown import as_markdown

        return as_markdown(report, calls)
    if form is Format.OPENMETRICS:
        from pipestate.render.openmetrics import as_openmetrics

        return as_openmetrics(report, latest)
    if form is not Format.CONSOLE:
        assert_never(form)
    from rich.console import Console

    from pipestate.render.console import print_report

    plain = Console(highlight=False, width=LOG_WIDTH, no_color=True, file=io.StringIO())
    print_report(report, plain, calls)
    assert isinstance(plain.file, io.StringIO)
    return plain.file.getvalue().rstrip()
