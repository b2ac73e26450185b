"""Where the links of a runbook may lead: to its own headings and to the web. Others become their words."""

from collections.abc import Sequence
from urllib.parse import unquote

from markdown_it.token import Token

from pipestate.report.anchors import Anchors
from pipestate.safe import html

WEB = ("https://", "http://", "mailto:")


def settle_links(tokens: Sequence[Token], anchors: Anchors) -> None:
    """Give each link of a line its place in the report, or take the link away and leave its words."""
    opened: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            opened.append(_settle(token, anchors))
        elif token.type == "link_close" and not opened.pop():
            token.tag = "span"


def _settle(token: Token, anchors: Anchors) -> bool:
    target = str(token.attrGet("href") or "")
    here = anchors.find(unquote(target[1:])) if target.startswith("#") else None
    if here is not None:
        token.attrs = {"href": f"#{here}"}
    elif target.lower().startswith(WEB):
        token.attrs = {"href": target, "rel": "noreferrer noopener"}
    else:
        token.tag = "span"
        token.attrs = {"class": "elsewhere", "title": html(unquote(target))}
        return False
    return True
