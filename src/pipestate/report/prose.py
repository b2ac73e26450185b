"""A runbook's Markdown as HTML, cut into its sections, with a note beside each block that has one.

Markdown is read as `runbook.markdown` reads it, so that lines mean the same; what is raw HTML there is shown
as text. Nothing is loaded from elsewhere: images become their words, and a link leads to the page itself or
to the web, or becomes its words, too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape
from mdit_py_plugins.front_matter import front_matter_plugin

from pipestate.report.anchors import Anchors
from pipestate.report.links import settle_links
from pipestate.runbook.markdown import MAX_NESTING
from pipestate.safe import html, html_lines

# A page's own headings begin below those of the report: its title is the third level there.
DEEPER, DEEPEST = 2, 6
NOTE = "note"


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside the blocks of a page: notes, and which SQL is shown unfolded; by the block's line."""

    notes: Mapping[int, Markup] = field(default_factory=dict)
    unfolded: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ProseSection:
    """What stands under one heading of the first two levels; before the first heading the level is 0."""

    level: int
    line: int
    anchor: str
    heading: Markup
    body: Markup


def sections(text: str, beside: Beside, *, prefix: str) -> list[ProseSection]:
    """Render the page; the ids of its headings begin with `prefix`."""
    parser = _parser()
    tokens = parser.parse(text)
    anchors = Anchors(prefix, [tokens[index + 1].content for index in _headings(tokens)])
    cut: list[tuple[Token | None, list[Token]]] = [(None, [])]
    ids = iter(anchors.ids)
    for token in _with_notes(tokens, beside, anchors):
        if token.type == "heading_open":
            token.attrSet("id", next(ids))
        if token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2"):
            cut.append((token, []))
        else:
            cut[-1][1].append(token)
    rendered = (_section(parser, head, body, beside, prefix) for head, body in cut)
    return [section for section in rendered if section.heading or section.body.strip()]


def inline(text: str) -> Markup:
    """Render what stands in one line: code, emphasis, links to the web.

    >>> inline("in `orders` <b>")
    Markup('in <code>orders</code> &lt;b&gt;')
    """
    parser = _parser()
    tokens = parser.parseInline(text)
    settle_links(tokens[0].children or [], Anchors("", []))
    return _rendered(parser, tokens, Beside())


def _parser() -> MarkdownIt:
    options = {"maxNesting": MAX_NESTING}
    return MarkdownIt("commonmark", options, renderer_cls=_Renderer).use(front_matter_plugin).enable("table")


def _headings(tokens: Sequence[Token]) -> list[int]:
    return [index for index, token in enumerate(tokens) if token.type == "heading_open"]


def _with_notes(tokens: Sequence[Token], beside: Beside, anchors: Anchors) -> Iterator[Token]:
    """Put each note behind the fence, or the paragraph of the list item, that begins on its line."""
    waiting: list[int] = []
    for token in tokens:
        if token.type in ("th_open", "td_open"):
            _align_by_class(token)
        if token.type == "inline":
            _without_box(token)
            settle_links(token.children or [], anchors)
        yield token
        if token.type == "paragraph_open":
            waiting.append(_line(token))
        ended = _line(token) if token.type == "fence" else 0
        if token.type == "paragraph_close" and waiting:
            ended = waiting.pop()
        if ended in beside.notes:
            yield Token(NOTE, "", 0, content=str(beside.notes[ended]))


def _align_by_class(token: Token) -> None:
    """Say in a class what the parser says in a style: the page allows no styles but its own."""
    style = str(token.attrs.pop("style", ""))
    if style:
        token.attrSet("class", style.removeprefix("text-align:"))


def _without_box(token: Token) -> None:
    """Take the check box off an item: its note says how it stands."""
    for first in (token.children or [])[:1]:
        if first.type == "text":
            first.content = first.content.removeprefix("[ ] ")


def _section(
    parser: MarkdownIt, head: Token | None, body: Sequence[Token], beside: Beside, prefix: str
) -> ProseSection:
    if head is None:
        return ProseSection(0, 1, prefix, Markup(""), _rendered(parser, body, beside))
    inline, close, *rest = body
    del close
    title = _rendered(parser, [inline], beside)
    return ProseSection(
        int(head.tag[1:]), _line(head), str(head.attrGet("id")), title, _rendered(parser, rest, beside)
    )


def _rendered(parser: MarkdownIt, tokens: Sequence[Token], beside: Beside) -> Markup:
    return Markup(parser.renderer.render(tokens, parser.options, {"beside": beside}))


def _line(token: Token) -> int:
    return token.map[0] + 1 if token.map else 1


class _Renderer(RendererHTML):
    """HTML of which no part comes from the page as it is: each text is escaped, its control characters visible."""

    def __init__(self, parser: Any = None) -> None:
        super().__init__(parser)
        rules: Any = {name: _plain(rule) for name, rule in self.rules.items()}
        self.rules = rules

    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return escape(html(tokens[idx].content))

    def code_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return Markup("<code>{}</code>").format(html(tokens[idx].content))

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        token = tokens[idx]
        code = Markup("<pre><code>{}</code></pre>\n").format(html_lines(token.content))
        if token.info.strip().lower() != "sql":
            return code
        unfolded = Markup(" open" if _line(token) in env["beside"].unfolded else "")
        first = html(token.content.strip().split("\n", 1)[0].removeprefix("-- "))
        return Markup('<details class="sql"{}><summary>SQL: {}</summary>{}</details>\n').format(
            unfolded, first, code
        )

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return Markup("<pre><code>{}</code></pre>\n").format(html_lines(tokens[idx].content))

    def html_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        written = tokens[idx].content.strip()
        if written.startswith("<!--") and written.find("-->") == len(written) - 3:
            return ""  # a remark for those who edit the page
        return Markup('<pre class="raw">{}</pre>\n').format(html_lines(written))

    def html_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return escape(html(tokens[idx].content))

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        words = tokens[idx].content or str(tokens[idx].attrGet("src"))
        return Markup('<span class="elsewhere">{}</span>').format(html(words))

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
    """Let a rule return a plain string: what older renderers add Markup to would be escaped once more."""
    return lambda *arguments: str(rule(*arguments))


def _tag(token: Token) -> str:
    return f"h{min(DEEPEST, int(token.tag[1:]) + DEEPER)}"
