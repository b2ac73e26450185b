"""Escape external text (data, notes, names, errors) for its output format.

All displayed text passes one of these functions. Control characters and line breaks become visible escapes.
Syntax of the output format (a workflow command, Markdown, XML) is escaped. Numbers, paths, and ages as people type
them are here, too.
"""

import os
import re
import shutil
import textwrap
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

from pipestate.core.errors import ConfigError

# Characters that change the display of others, or that XML excludes, are as hostile as control characters.
_HOSTILE_TOO = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufffe\uffff"
)
# Characters that a terminal may obey, as a regular expression set for Python and PostgreSQL, which has no NUL.
OBEYED = r"\x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_HOSTILE = re.compile(rf"(?![\x00-\x1f])[{OBEYED}]")  # a document may contain line breaks
_COMMAND = re.compile(r"(?<!\S)::")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&$@])")
UNITS = {
    "y": timedelta(days=365),
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}
_NO_MOMENT = "--since {text}: write an age such as 7d, or a date such as 2026-01-20"


def plain(text: str) -> str:
    r"""Show a text on one line, with every control character visible.

    A word that begins with `::` gets a backslash, because a CI runner would obey it at the start of a line.

    >>> plain("a\x1b[31mb\nc"), plain("naïve ✓"), plain("::error x::int")
    ('a\\x1b[31mb\\nc', 'naïve ✓', '\\::error x::int')
    """
    return escape_controls(_COMMAND.sub(r"\\::", text))


def json_text(dumped: str) -> str:
    r"""Escape the characters of a JSON document that a terminal would obey; the document stays equal.

    >>> json_text('"a\x9bb"')
    '"a\\u009bb"'
    """
    return _HOSTILE.sub(lambda found: f"\\u{ord(found[0]):04x}", dumped)


def plain_lines(text: str) -> str:
    r"""Show a text of several lines; only its line breaks are kept.

    >>> plain_lines("a\n\x1b[2Jb")
    'a\n\\x1b[2Jb'
    """
    return "\n".join(plain(line) for line in text.split("\n"))


def github(text: str) -> str:
    r"""Escape a text for the message of a workflow command.

    >>> github("50 %\n::error::x")
    '50 %25\\n\\::error::x'
    """
    return plain(text).replace("%", "%25")


def github_property(text: str) -> str:
    """Escape a text for a property of a workflow command (`file=`, `title=`)."""
    return github(text).replace(":", "%3A").replace(",", "%2C")


def markdown(text: str) -> str:
    r"""Escape a text for Markdown: links, images, mentions, headings, HTML and table cells become literal.

    >>> markdown("![x](http://e) @you <b>")
    '!\\[x\\](http://e) \\@\u200byou \\<b\\>'
    """
    return _MARKDOWN.sub(r"\\\1", plain(text)).replace("\\@", "\\@\u200b")


def markdown_code(text: str) -> str:
    """Escape a text for a code span in a table cell."""
    return plain(text).replace("`", "ˋ").replace("|", "\\|")


def metric_label(text: str) -> str:
    r"""Escape a text for the value of a label, between quotation marks.

    >>> metric_label('a"b\nc')
    'a\\"b\\\\nc'
    """
    return plain(text).replace("\\", "\\\\").replace('"', '\\"')


def escape_controls(text: str) -> str:
    r"""Make every control character of a text visible; a template escapes the rest.

    >>> escape_controls("a\x1b[31m\nb\ufffe"), escape_controls("n::int <b>")
    ('a\\x1b[31m\\nb\\ufffe', 'n::int <b>')
    """
    if text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def escape_controls_by_line(text: str) -> str:
    r"""Make control characters of several lines visible; line breaks and tabs are kept.

    >>> escape_controls_by_line("SELECT\n\t1;\x00")
    'SELECT\n\t1;\\x00'
    """
    return "\n".join(
        "\t".join(escape_controls(cell) for cell in line.split("\t")) for line in text.split("\n")
    )


def _visible(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    category = unicodedata.category(character)
    if category not in ("Cc", "Cs", "Zl", "Zp") and character not in _HOSTILE_TOO:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


# Numbers with nouns and units.


def listed(names: Iterable[str], most: int = 3) -> str:
    """Name the first few, and count the others.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 more')
    """
    every = list(names)
    first = every[:most]
    if len(every) > most:
        return f"{', '.join(first)} and {len(every) - most} more"
    return " and ".join(filter(None, (", ".join(first[:-1]), first[-1] if first else "")))


def many(count: int, noun: str, several: str | None = None) -> str:
    """
    >>> many(1, "site"), many(2695, "failed OCR job")
    ('1 site', '2,695 failed OCR jobs')
    """
    return f"{count:,} {noun if count == 1 else several or f'{noun}s'}"


def duration(ms: float) -> str:
    """Format a time for people.

    >>> duration(4.26), duration(740), duration(1234)
    ('4 ms', '740 ms', '1.2 s')
    """
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def size(count: int) -> str:
    """Format a number of bytes for people.

    >>> size(8192), size(65_000_000), size(1 << 30), size(11 << 30 | 1 << 29)
    ('8 kB', '61 MB', '1 GB', '11.5 GB')
    """
    if count < 1 << 20:
        return f"{count >> 10} kB"
    if count < 1 << 30:
        return f"{count >> 20:,} MB"
    return f"{count / (1 << 30):,.1f}".removesuffix(".0") + " GB"


# Sentences wrapped to the width of a terminal, with indentation.


def print_lines(sentence: str, stream: TextIO) -> None:
    """Print lines with visible control characters; on a terminal, wrap them between words."""
    lines = plain_lines(sentence).split("\n")
    width = _width(stream) if stream.isatty() else None
    print("\n".join(folded(line, width) if width else line for line in lines), file=stream)


def _width(terminal: TextIO) -> int:
    """Read the width of a terminal: COLUMNS, else its size."""
    if not os.environ.get("COLUMNS", "").isdigit():
        with suppress(OSError, ValueError):
            return os.get_terminal_size(terminal.fileno()).columns
    return shutil.get_terminal_size().columns


def folded(line: str, width: int) -> str:
    """Wrap a line, and indent the continuation further than the item.

    >>> print(folded("    certain   SHARE; not rewritten", 28))
        certain   SHARE; not
            rewritten
    """
    if len(line) <= width:
        return line
    indent = len(line) - len(line.lstrip(" "))
    rest = " " * (indent + min(indent, 4))
    return "\n".join(
        textwrap.wrap(
            line,
            width,
            subsequent_indent=rest,
            break_on_hyphens=False,
            replace_whitespace=False,
            drop_whitespace=True,
        )
    )


def from_here(path: Path) -> Path:
    """Return the path relative to the current directory, for messages and reports."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path


def shorter_path(path: str) -> str:
    """Return the relative path if it is shorter."""
    if not Path(path).is_absolute():
        return path
    return min(path, os.path.relpath(path), key=len)


def place(source: str) -> str:
    """Write a `path:line` with the shorter path.

    >>> place("runbooks/orders.md:15"), place("/elsewhere/orders.md:15")
    ('runbooks/orders.md:15', '/elsewhere/orders.md:15')
    """
    path, _, line = source.rpartition(":")
    return plain(f"{shorter_path(path)}:{line}" if path else source)


def replace_text(path: Path, text: str, *, encoding: str = "utf-8") -> None:
    """Replace a file atomically: a reader sees either the old text or the new one. Its permissions stay.

    The new file is written beside the old one, with another suffix, so that searches by suffix skip it.
    Pipes and devices such as /dev/stdout are written directly.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding=encoding)
        return
    target = path.resolve()  # keep a symbolic link
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w", encoding=encoding) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            beside.chmod(target.stat().st_mode)
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise


def parse_age(text: str, *, option: str = "--older-than", units: str = "dhm") -> timedelta:
    """Read an age in one of the units.

    >>> parse_age("30d")
    datetime.timedelta(days=30)
    """
    found = re.fullmatch(rf"([0-9]{{1,6}})([{units}])", text.strip())
    if found is None:
        examples = {"y": "1y", "w": "6w", "d": "30d", "h": "12h", "m": "45m", "s": "30s"}
        *first, last = (examples[unit] for unit in units)
        raise ConfigError(f"{option} {text}: write {', '.join(first)} or {last}")
    return int(found[1]) * UNITS[found[2]]


def parse_since(text: str, *, now: datetime) -> datetime:
    """Read an age, a date or a time; UTC is the default zone.

    >>> parse_since("2026-01-20", now=datetime.now(UTC)).isoformat()
    '2026-01-20T00:00:00+00:00'
    """
    try:
        with suppress(ValueError):
            moment = datetime.fromisoformat(text.strip())
            return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
        return now - parse_age(text, option="--since", units="ywdhm")
    except (ConfigError, OverflowError) as error:
        raise ConfigError(_NO_MOMENT.format(text=text)) from error
