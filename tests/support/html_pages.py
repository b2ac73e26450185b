"""A page of HTML, read strictly, and what must be true of every report."""

import base64
import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from xml.etree.ElementTree import Element

import html5lib

CSP = re.compile(
    r"default-src 'none'; style-src '(?P<hash>sha256-[\w+/=]+)'; img-src data:; base-uri 'none'; form-action 'none'"
)
# Attributes that make a browser load or run something.
LOADING = ("src", "srcset", "action", "formaction", "data", "background", "poster", "xlink:href", "style")


@dataclass(frozen=True)
class Html:
    """A page as its elements; html5lib raises where it is not well formed."""

    text: str

    @cached_property
    def root(self) -> Element:
        parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
        root: Element = parser.parse(self.text.replace("<wbr>", ""))
        return root

    def all(self, tag: str, class_: str | None = None) -> list[Element]:
        found = (each for each in self.root.iter() if name(each) == tag)
        return [each for each in found if class_ is None or class_ in (each.get("class") or "").split()]

    def of_class(self, class_: str) -> list[Element]:
        return [each for each in self.root.iter() if class_ in (each.get("class") or "").split()]

    def with_id(self, id: str) -> Element:
        (found,) = [each for each in self.root.iter() if each.get("id") == id]
        return found

    @cached_property
    def words(self) -> str:
        """All that a person can read, on one line."""
        return words(self.root)


def name(element: Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else "a comment"


def words(element: Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def must_be_whole(page: Html) -> None:
    """It loads and runs nothing, every link on it leads somewhere, and its rules allow its own style alone."""
    for each in page.root.iter():
        assert name(each) not in (
            "script",
            "iframe",
            "object",
            "embed",
            "img",
            "form",
            "base",
            "foreignObject",
        )
        loading = [key for key in each.attrib if str(key) in LOADING or str(key).startswith("on")]
        assert not loading, f"{name(each)} {each.attrib}"
    (link,) = page.all("link")
    assert (link.get("rel"), link.get("href")) == ("icon", "data:,")
    assert "url(" not in page.text.partition("</style>")[0]
    assert "@import" not in page.text.partition("</style>")[0]
    must_lead_somewhere(page)
    must_allow_its_style_alone(page)


def must_lead_somewhere(page: Html) -> None:
    ids = Counter(each.get("id") for each in page.root.iter() if each.get("id"))
    assert [id for id, count in ids.items() if count > 1] == []
    for anchor in page.all("a"):
        target = anchor.get("href") or ""
        assert target.startswith(("#", "https://", "http://", "mailto:")), target
        assert not target.startswith("#") or target[1:] in ids, f"{target} leads nowhere"
    for each in page.root.iter():
        for reference in ("aria-labelledby", "aria-describedby"):
            assert all(id in ids for id in (each.get(reference) or "").split())


def must_allow_its_style_alone(page: Html) -> None:
    (policy,) = [each for each in page.all("meta") if each.get("http-equiv") == "Content-Security-Policy"]
    allowed = CSP.fullmatch(policy.get("content") or "")
    (style,) = page.all("style")
    digest = hashlib.sha256((style.text or "").encode()).digest()
    assert allowed is not None, policy.get("content")
    assert allowed["hash"] == f"sha256-{base64.b64encode(digest).decode()}"
