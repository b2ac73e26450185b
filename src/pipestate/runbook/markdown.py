"""Markdown into the few blocks that a runbook is made of. Only this module knows markdown-it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

# CommonMark's preset stops at 20 and drops what is nested deeper without a word.
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
    """What Markdown does not take for a fence, a heading or a list: raw HTML, indented code."""

    line: int
    content: str


Block = FrontMatter | Heading | Fence | Task | AgainItem | Unread


def blocks(source: str) -> Iterator[Block]:
    """The blocks in document order, at any depth. `source` has its newlines normalised."""
    lines = source.split("\n")
    tokens = _parser().parse(source)
    for index, token in enumerate(tokens):
        if token.type == "front_matter":
            yield FrontMatter(_line(token), token.content)
        elif token.type == "heading_open":
            yield Heading(_line(token), int(token.tag[1:]), tokens[index + 1].content, token.level > 0)
        elif token.type == "fence":
            yield Fence(_line(token), _language(token.info), token.content, _is_closed(token, lines))
        elif token.type in ("html_block", "code_block"):
            yield Unread(_line(token), token.content)
        elif token.type == "paragraph_open":
            listed = tokens[index - 1].type == "list_item_open"
            yield from _spoken(_line(token), tokens[index + 1].content, listed=listed)


def _parser() -> MarkdownIt:
    # What stands inside a line does not matter here, so that rule is left out: it is the slow one.
    return MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).use(front_matter_plugin).disable("inline")


def _line(token: Token) -> int:
    return token.map[0] + 1 if token.map else 1


def _language(info: str) -> str:
    word = re.match(r"[\w+-]*", info.strip())
    return word.group().lower() if word else ""


def _spoken(line: int, text: str, *, listed: bool) -> Iterator[Task | AgainItem]:
    """What a paragraph is, if not prose: an item with a check box, or one that asks something again."""
    if listed and _TASK.match(text):
        yield Task(line, text)
    elif _AGAIN.match(text):
        yield AgainItem(line, text, listed)


def _is_closed(token: Token, lines: list[str]) -> bool:
    """Tell whether a fence ends at its own marker and not because the file or the list item ended."""
    first, end = token.map or (0, 0)
    closing = re.compile(rf"[\s>]*{re.escape(token.markup[0])}{{{len(token.markup)},}}\s*")
    return end - 1 > first and closing.fullmatch(lines[end - 1]) is not None
