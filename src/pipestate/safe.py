"""Text from outside (data, notes, names, errors) made safe for the place where it is shown.

Whatever is shown goes through one of these: control characters and line breaks become visible escapes, and
what the place would interpret (a workflow command, Markdown, XML) is escaped.
"""

import re
import unicodedata

# Characters that change how others are shown: they are as hostile as control characters.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# What a terminal may obey, as a set in a regular expression of Python's and of PostgreSQL's, which knows no NUL.
OBEYED = r"\x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_HOSTILE = re.compile(rf"(?![\x00-\x1f])[{OBEYED}]")  # a document may have line breaks
_COMMAND = re.compile(r"(?<!\S)::")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&$@])")


def plain(text: str) -> str:
    r"""Show a text on one line, with every control character visible.

    A word that begins with `::` gets a backslash: at the start of a line a CI runner would obey it.

    >>> plain("a\x1b[31mb\nc"), plain("naïve ✓"), plain("::error x::int")
    ('a\\x1b[31mb\\nc', 'naïve ✓', '\\::error x::int')
    """
    text = _COMMAND.sub(r"\\::", text)
    if text.isprintable():
        return text
    return "".join(_visible(character) for character in text)


def json_text(dumped: str) -> str:
    r"""Escape in a JSON document what a terminal would obey; it stays the same document.

    >>> json_text('"a\x9bb"')
    '"a\\u009bb"'
    """
    return _HOSTILE.sub(lambda found: f"\\u{ord(found[0]):04x}", dumped)


def plain_lines(text: str) -> str:
    r"""Show a text of several lines; only its line breaks stay.

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
    r"""Escape a text so that Markdown shows it as it is: no link, image, mention, heading, HTML or table cell.

    >>> markdown("![x](http://e) @you <b>")
    '!\\[x\\](http://e) \\@\u200byou \\<b\\>'
    """
    return _MARKDOWN.sub(r"\\\1", plain(text)).replace("\\@", "\\@\u200b")


def markdown_code(text: str) -> str:
    """Escape a text for a code span in a table cell."""
    return plain(text).replace("`", "ˋ").replace("|", "\\|")


def slack(text: str) -> str:
    r"""Escape lines of text for Slack and what understands the same: no mention, link, image or code of its own.

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
    r"""Leave nothing in a text that an XML document cannot hold; a serializer escapes the rest.

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
    r"""Do the same for a text of several lines: its line breaks and tabs stay.

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
