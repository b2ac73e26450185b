"""Escape external text (data, notes, names, errors) for its output format.

All displayed text passes one of these functions. Control characters and line breaks become visible escapes.
Syntax of the output format (a workflow command, Markdown, XML) is escaped.
"""

import os
import re
import shutil
import textwrap
import unicodedata
from contextlib import suppress
from typing import TextIO

# Characters that change the display of others are as hostile as control characters.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Characters that a terminal may obey, as a regular expression set for Python and PostgreSQL, which has no NUL.
OBEYED = r"\x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_HOSTILE = re.compile(rf"(?![\x00-\x1f])[{OBEYED}]")  # a document may contain line breaks
_COMMAND = re.compile(r"(?<!\S)::")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&$@])")


def plain(text: str) -> str:
    r"""Show a text on one line, with every control character visible.

    A word that begins with `::` gets a backslash, because a CI runner would obey it at the start of a line.

    >>> plain("a\x1b[31mb\nc"), plain("naïve ✓"), plain("::error x::int")
    ('a\\x1b[31mb\\nc', 'naïve ✓', '\\::error x::int')
    """
    text = _COMMAND.sub(r"\\::", text)
    if text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


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


def slack(text: str) -> str:
    r"""Escape lines of text for Slack and compatible services: mentions, links, images and code become literal.

    >>> slack("<!channel> @here [a](http://e) `b`")
    '&lt;!channel&gt; @\u200bhere [a]\u200b(http://e) ˋbˋ'
    """
    shown = plain_lines(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return shown.replace("@", "@\u200b").replace("](", "]\u200b(").replace("`", "ˋ")


def metric_label(text: str) -> str:
    r"""Escape a text for the value of a label, between quotation marks.

    >>> metric_label('a"b\nc')
    'a\\"b\\\\nc'
    """
    return plain(text).replace("\\", "\\\\").replace('"', '\\"')


def xml(text: str) -> str:
    r"""Escape the characters that XML documents exclude; a serializer escapes the rest.

    >>> xml("a\x00b\ufffe")
    'a\\x00b\\ufffe'
    """
    return plain_lines(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def html(text: str) -> str:
    r"""Make every control character of a text visible; a template escapes the rest.

    >>> html("a\x1b[31m\nb\ufffe"), html("n::int <b>")
    ('a\\x1b[31m\\nb\\ufffe', 'n::int <b>')
    """
    if text.isprintable():
        return text
    return (
        "".join(_visible(character) for character in text)
        .replace("\ufffe", "\\ufffe")
        .replace("\uffff", "\\uffff")
    )


def html_lines(text: str) -> str:
    r"""Make control characters of several lines visible; line breaks and tabs are kept.

    >>> html_lines("SELECT\n\t1;\x00")
    'SELECT\n\t1;\\x00'
    """
    return "\n".join("\t".join(html(cell) for cell in line.split("\t")) for line in text.split("\n"))


def _visible(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    category = unicodedata.category(character)
    hostile = category in ("Cc", "Cs", "Zl", "Zp") or character in _BIDI
    if not hostile:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


# Numbers with nouns and units.


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
