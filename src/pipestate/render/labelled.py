"""Lines with a label before them, for terminals from 60 columns up: a long text goes on under itself."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

LABEL = 9

Line = tuple[Text, Text]


def label(name: str, style: str = "dim") -> Text:
    return Text(name, style)


def labelled(lines: Iterable[Line], *, indent: int = 2) -> Table:
    """Lay the lines out in two columns."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=LABEL + indent, no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(Text(" " * indent).append_text(name), text)
    return table


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
