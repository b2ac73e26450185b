"""Split Markdown into the blocks of a runbook. Only this module uses markdown-it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

# CommonMark's preset stops at 20 and silently drops deeper nesting.
MAX_NESTING = 100

_TASK = re.compile(r"\[\s*[xX]?\s*\](?=\s|$)")
_AGAIN = re.compile(r"[*_`\s]*again\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    line: int
    content: str


@dataclass(frozen=True, slots=True)
class Heading:
    line: int
    depth: int
    text: str
    nested: bool


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block; `language` is the first word of its info string, in lower case."""

    line: int
    language: str
    content: str
    closed: bool


@dataclass(frozen=True, slots=True)
class Task:
    """A list item that begins with a check box."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class AgainItem:
    """A list item, or a paragraph, that begins with "again"."""

    line: int
    text: str
    listed: bool


@dataclass(frozen=True, slots=True)
class Unread:
    """Raw HTML or indented code: Markdown other than a fence, heading, list or paragraph."""

    line: int
    content: str


@dataclass(frozen=True, slots=True)
class Prose:
    """Any other paragraph; `nested` if it is in a list or a quotation."""

    line: int
    text: str
    nested: bool = False


Block = FrontMatter | Heading | Fence | Task | AgainItem | Unread | Prose


def blocks(source: str) -> Iterator[Block]:
    """Yield the blocks in document order, at any depth. `source` has normalised newlines."""
    lines = source.split("\n")
    # Inline content is unused here, so the slow inline rule is disabled.
    from markdown_it import MarkdownIt  # a migration without a runbook does not load it
    from mdit_py_plugins.front_matter import front_matter_plugin

    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).use(front_matter_plugin).disable("inline")
    tokens = parser.parse(source)
    for index, token in enumerate(tokens):
        if token.type == "front_matter":
            yield FrontMatter(_line(token), token.content)
        elif token.type == "heading_open":
            yield Heading(_line(token), int(token.tag[1:]), tokens[index + 1].content, token.level > 0)
        elif token.type == "fence":
            word = re.match(r"[\w+-]*", token.info.strip())
            language = word.group().lower() if word else ""
            yield Fence(_line(token), language, token.content, _is_closed(token, lines))
        elif token.type in ("html_block", "code_block"):
            yield Unread(_line(token), token.content)
        elif token.type == "paragraph_open":
            listed, text = tokens[index - 1].type == "list_item_open", tokens[index + 1].content
            if listed and _TASK.match(text):
                yield Task(_line(token), text)
            elif _AGAIN.match(text):
                yield AgainItem(_line(token), text, listed)
            else:
                yield Prose(_line(token), text, nested=token.level > 0)


def _line(token: "Token") -> int:
    return token.map[0] + 1 if token.map else 1


def _is_closed(token: "Token", lines: list[str]) -> bool:
    """Tell whether a fence ends at its own marker, rather than at the end of the file or list item."""
    first, end = token.map or (0, 0)
    closing = re.compile(rf"[\s>]*{re.escape(token.markup[0])}{{{len(token.markup)},}}\s*")
    return end - 1 > first and closing.fullmatch(lines[end - 1]) is not None
