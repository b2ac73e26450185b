"""Runbook Markdown as HTML: sections, links, notes, and heading ids by GitHub's rule with a prefix."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape
from mdit_py_plugins.front_matter import front_matter_plugin

from pipestate.core.text import escape_controls, escape_controls_by_line
from pipestate.report.words import identifier
from pipestate.runbook.markdown import MAX_NESTING

_DROPPED = re.compile(r"[^\w\- ]")
# Links may lead to the runbook's own headings and to the web. Other links become plain text.
WEB = ("https://", "http://", "mailto:")
# A runbook's headings are nested below those of the report: its title has the third level there.
DEEPER, DEEPEST = 2, 6
NOTE = "note"


def slug(heading: str) -> str:
    """Return the fragment of a link to a heading: the text after `#`.

    >>> slug("In an emergency!"), slug("Phase: `dual-write`")
    ('in-an-emergency', 'phase-dual-write')
    """
    return _DROPPED.sub("", heading.strip().lower()).replace(" ", "-")


def anchors_of(prefix: str, headings: Iterable[str]) -> dict[str, str]:
    """Map the fragment of each heading to its id, in their order; repeated headings are numbered."""
    found: dict[str, str] = {}
    for heading in headings:
        wanted = free = slug(heading)
        number = 0
        while free in found:
            number += 1
            free = f"{wanted}-{number}"
        found[free] = f"{prefix}.{free}"
    return found


def settle_links(tokens: Sequence[Token], anchors: Mapping[str, str]) -> None:
    """Point each link of a line at its place in the report, or replace the link by its text."""
    tags: list[str] = []
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrGet("href") or "")
            here = anchors.get(unquote(target[1:]).lower()) if target.startswith("#") else None
            if here is not None:
                token.attrs = {"href": f"#{here}"}
            elif target.lower().startswith(WEB):
                token.attrs = {"href": target, "rel": "noreferrer noopener"}
            else:
                token.tag = "span"
                token.attrs = {"class": "elsewhere", "title": escape_controls(unquote(target))}
            tags.append(token.tag)
        elif token.type == "link_close":
            token.tag = tags.pop()


# The parser is that of `runbook.markdown`, so that line numbers agree; raw HTML is shown as text.
# The report loads no external file: images and links outside the report and the web become text.
Notes = Mapping[int, Markup]


@dataclass(frozen=True, slots=True)
class ProseSection:
    """Text under one heading of the first two levels; before the first heading the level is 0."""

    level: int
    line: int
    anchor: str
    heading: Markup
    body: Markup


def sections(text: str, notes: Notes, *, prefix: str) -> list[ProseSection]:
    """Render the runbook with a note beside each block that has one, by the block's line.

    The ids of its headings begin with `prefix`.
    """
    parser = _parser()
    tokens = parser.parse(text)
    headings = (after.content for token, after in pairwise(tokens) if token.type == "heading_open")
    anchors = anchors_of(prefix, headings)
    cut: list[tuple[Token | None, list[Token]]] = [(None, [])]
    ids = iter(anchors.values())
    for token in _with_notes(tokens, notes, anchors):
        if token.type == "heading_open":
            token.attrSet("id", next(ids))
        if token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2"):
            cut.append((token, []))
        else:
            cut[-1][1].append(token)
    rendered = (_section(parser, head, body, prefix) for head, body in cut)
    return [section for section in rendered if section.heading or section.body.strip()]


def inline(text: str) -> Markup:
    """Render inline Markdown: code, emphasis, links to the web.

    >>> inline("in `orders` <b>")
    Markup('in <code>orders</code> &lt;b&gt;')
    """
    parser = _parser()
    tokens = parser.parseInline(text)
    settle_links(tokens[0].children or [], {})
    return _rendered(parser, tokens)


def _parser() -> MarkdownIt:
    options = {"maxNesting": MAX_NESTING}
    return MarkdownIt("commonmark", options, renderer_cls=_Renderer).use(front_matter_plugin).enable("table")


def _with_notes(tokens: Sequence[Token], notes: Notes, anchors: Mapping[str, str]) -> Iterator[Token]:
    """Insert each note after the fence, heading, or list item's paragraph that begins on its line."""
    waiting: list[int] = []
    for token in tokens:
        if token.type in ("th_open", "td_open") and (style := str(token.attrs.pop("style", ""))):
            # The page's policy forbids the inline style with which the parser aligns.
            token.attrSet("class", style.removeprefix("text-align:"))
        children = token.children or []
        if children and children[0].type == "text":  # the note of an item shows its status
            children[0].content = children[0].content.removeprefix("[ ] ")
        settle_links(children, anchors)
        yield token
        if token.type in ("paragraph_open", "heading_open"):
            waiting.append(_line(token))
        ended = _line(token) if token.type == "fence" else 0
        if token.type in ("paragraph_close", "heading_close") and waiting:
            ended = waiting.pop()
        if ended in notes:
            yield Token(NOTE, "", 0, content=str(notes[ended]))


def _section(parser: MarkdownIt, head: Token | None, body: Sequence[Token], prefix: str) -> ProseSection:
    if head is None:
        return ProseSection(0, 1, prefix, Markup(""), _rendered(parser, body))
    inline, close, *rest = body
    del close
    title = _rendered(parser, [inline])
    return ProseSection(
        int(head.tag[1:]), _line(head), str(head.attrGet("id")), title, _rendered(parser, rest)
    )


def _rendered(parser: MarkdownIt, tokens: Sequence[Token]) -> Markup:
    return Markup(parser.renderer.render(tokens, parser.options, {}))


def _line(token: Token) -> int:
    return token.map[0] + 1 if token.map else 1


class _Renderer(RendererHTML):
    """HTML renderer that escapes every text and makes its control characters visible."""

    def __init__(self, parser: Any = None) -> None:
        super().__init__(parser)
        rules: Any = {name: _plain(rule) for name, rule in self.rules.items()}
        self.rules = rules

    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return identifier(tokens[idx].content)  # allows a line break after a slash

    def code_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return Markup("<code>{}</code>").format(identifier(tokens[idx].content))

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        token = tokens[idx]
        code = Markup("<pre><code>{}</code></pre>\n").format(escape_controls_by_line(token.content))
        if token.info.strip().lower() != "sql":
            return code
        first = escape_controls(token.content.strip().split("\n", 1)[0].removeprefix("-- "))
        return Markup('<details class="sql"><summary>SQL: {}</summary>{}</details>\n').format(first, code)

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return Markup("<pre><code>{}</code></pre>\n").format(escape_controls_by_line(tokens[idx].content))

    def html_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        written = tokens[idx].content.strip()
        if written.startswith("<!--") and written.find("-->") == len(written) - 3:
            return ""  # comments for editors of the runbook
        return Markup('<pre class="raw">{}</pre>\n').format(escape_controls_by_line(written))

    def html_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return escape(escape_controls(tokens[idx].content))

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        words = tokens[idx].content or str(tokens[idx].attrGet("src"))
        return Markup('<span class="elsewhere">{}</span>').format(escape_controls(words))

    def front_matter(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return ""

    def note(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return tokens[idx].content

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        token = tokens[idx]
        return Markup('<{} id="{}">').format(_tag(token), str(token.attrGet("id")))

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"</{_tag(tokens[idx])}>\n"

    def table_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return '<div class="scroll" tabindex="0" role="group" aria-label="A table of the runbook"><table>'

    def table_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</table></div>\n"


def _plain(rule: Callable[..., str]) -> Callable[..., str]:
    """Make a rule return a plain string: older renderers would escape text added to Markup again."""
    return lambda *arguments: str(rule(*arguments))


def _tag(token: Token) -> str:
    return f"h{min(DEEPEST, int(token.tag[1:]) + DEEPER)}"
