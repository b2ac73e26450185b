"""SVG elements as text that is escaped: the only place that writes angle brackets for charts."""

from collections.abc import Iterable

from markupsafe import Markup, escape

from pipestate.safe import html


def element(name: str, *children: str, **attributes: object) -> Markup:
    """Return an element; an underscore in an attribute's name is a hyphen, one at its end is dropped.

    >>> element("text", "a < b", class_="tick", text_anchor="end")
    Markup('<text class="tick" text-anchor="end">a &lt; b</text>')
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _text(value))
        for key, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(_text(child) for child in children)
    return Markup("<{0}{1}>{2}</{0}>").format(name, written, inside)


def path(commands: Iterable[str], class_: str) -> Markup:
    """Return a path, or nothing where it has no command."""
    drawn = "".join(commands)
    return element("path", d=drawn, class_=class_) if drawn else Markup("")


def at(value: float) -> str:
    """Write a coordinate to a tenth of a unit.

    >>> at(12.04), at(7.96)
    ('12', '8')
    """
    return f"{value:.1f}".removesuffix(".0")


def _text(value: object) -> Markup:
    if isinstance(value, Markup):
        return value
    return escape(at(value) if isinstance(value, float) else html(str(value)))
