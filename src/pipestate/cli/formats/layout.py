"""Sentences and layout that screens share: names, evidence, columns, rows of a query."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from pipestate.core.text import plain
from pipestate.database.urls import database_name
from pipestate.verify.report import DatabaseInfo, Json

if TYPE_CHECKING:
    from pipestate.ledger.soft_drops import SoftDropped

# Lines for a terminal: long text continues on indented lines; a pipe gets it unbroken.
LABEL = 9
LONGEST_VALUE = 300
LONGEST_NUMBER = 14
# People need moments to the second only.
_FRACTION = re.compile(r"^(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)\.\d+")


def more_rows(total: int, shown: int) -> list[str]:
    """Count the hidden rows.

    >>> more_rows(1244, 10), more_rows(3, 3)
    (['and 1,234 more'], [])
    """
    return [f"and {total - shown:,} more"] if total > shown else []


def database_line(info: DatabaseInfo) -> str:
    """Name the database and its revision."""
    server = f"{info.dialect} {info.server_version}"
    head = f" of {info.head}" if info.head else " (no migrations yet)"
    return plain(f"{database_name(info.url)}, {server}, at revision {info.revision or 'base'}{head}")


def minute(at: datetime) -> str:
    """Write a moment in UTC, to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


Line = tuple[Text, Text]


def label(name: str, style: str = "dim") -> Text:
    return Text(name, style)


def labelled(lines: Iterable[Line], *, indent: int = 2) -> Table:
    """Lay lines out in two columns, the labels in the first."""
    table = Table.grid(padding=(0, 1))
    table.add_column(width=LABEL + indent, no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(Text(" " * indent).append_text(name), text)
    return table


def hanging(text: Text, console: Console, indent: int = 2) -> Text:
    """Break a text between words, and indent all lines after the first."""
    if not console.is_terminal or text.cell_len <= console.width:
        return text
    first, *rest = _stripped(text.wrap(console, console.width))
    lines = [first, *_stripped(Text(" ").join(rest).wrap(console, console.width - indent))]
    return Text("\n" + " " * indent).join(lines)


def _stripped(lines: Iterable[Text]) -> Iterator[Text]:
    for line in lines:
        line.rstrip()
        yield line


def in_columns(rows: Iterable[tuple[Text, ...]], console: Console) -> Iterator[Text | Table]:
    """Lay rows out in columns; only the last column may be broken. A pipe gets each row in a line."""
    every = list(rows)
    widths = [max(cell.cell_len for cell in column) for column in list(zip(*every, strict=True))[:-1]]
    if not console.is_terminal:
        for *cells, last in every:
            line = Text()
            for cell, width in zip(cells, widths, strict=True):
                line.append_text(cell).append(" " * (width - cell.cell_len + 2))
            yield line.append_text(last)
        return
    table = Table.grid(padding=(0, 2))
    for width in widths:
        table.add_column(width=width, no_wrap=True)
    table.add_column(overflow="fold")
    for row in every:
        table.add_row(*row)
    yield table


def soft_dropped_as_lines(things: "Sequence[SoftDropped]") -> list[str]:
    """Describe each object: its size, the revision that dropped it, and the time."""
    return [
        f"{thing.described}: {thing.size}, dropped by {thing.revision}, {minute(thing.dropped_at)} UTC"
        for thing in things
    ]


Rows = Sequence[Mapping[str, Json]]


def rows_table(
    rows: Rows, width: int, *, most: int | None = None, most_below: int | None = None, total: int = 0
) -> RenderableType:
    """Show the rows with every column; columns that are NULL in all rows are named below.

    `most` limits the rows of a table, `most_below` those that need several lines each. `total` is the number of
    all rows, if `rows` are only the first of them.
    """
    shown = rows[:most]
    columns, cells = _filled(shown)
    in_a_table = fits(columns, cells, width)
    if not in_a_table and most_below is not None:
        shown = rows[:most_below]
        columns, cells = _filled(shown)
    if in_a_table:
        parts: list[RenderableType] = [table_of(columns, cells)]
    else:
        parts = [line for row in cells for line in _folded(columns, row, width)]
    if empty := [name for name in (rows[0] if rows else ()) if name not in columns]:
        parts.append(Text(f"NULL in every row: {plain(', '.join(empty))}", "dim"))
    for more in more_rows(max(total, len(rows)), len(shown)):
        parts.append(Text(f"{more}: --evidence all lists them", "dim"))
    return Group(*parts)


def _filled(rows: Rows) -> tuple[list[str], list[list[Text]]]:
    """Return the columns with a value in these rows, or all if every cell is NULL, and their cells."""
    names = list(rows[0]) if rows else []
    columns = [name for name in names if any(row.get(name) is not None for row in rows)] or names
    return columns, [[_value(row.get(name)) for name in columns] for row in rows]


def fits(columns: Sequence[str], cells: Sequence[Sequence[Text]], width: int) -> bool:
    """Tell whether the columns fit beside each other."""
    widest = (
        max(cell_len(plain(name)), *(row[number].cell_len for row in cells))
        for number, name in enumerate(columns)
    )
    return sum(each + 2 for each in widest) - 2 <= width


def table_of(columns: Sequence[str], cells: Iterable[Sequence[Text]], *, right: Sequence[str] = ()) -> Table:
    """Lay out cells below the names of their columns; those in `right` are aligned to the right."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for column in columns:
        table.add_column(Text(plain(column)), justify="right" if column in right else "left", no_wrap=True)
    for row in cells:
        table.add_row(*row)
    return table


def _folded(columns: Sequence[str], row: Sequence[Text], width: int) -> list[RenderableType]:
    """Lay out pairs beside each other; indent the further lines of a long row."""
    lines: list[Text] = []
    for name, value in zip(columns, row, strict=True):
        pair = Text(overflow="fold").append(f"{plain(name)}: ", "dim")
        pair.append(value.plain[:LONGEST_VALUE], value.style)
        if len(value.plain) > LONGEST_VALUE:
            pair.append("…", "dim")
        if lines and lines[-1].cell_len + 2 + pair.cell_len <= width - 2:
            lines[-1].append("  ").append_text(pair)
        else:
            lines.append(pair)
    return [lines[0], *(Padding(line, (0, 0, 0, 2)) for line in lines[1:])]


def _value(value: Json) -> Text:
    if value is None:
        return Text("NULL", "dim")
    text = str(value)
    if isinstance(value, float) and len(text) > LONGEST_NUMBER:
        text = f"{value:.{LONGEST_NUMBER - 2}g}"
    return Text(plain(_FRACTION.sub(r"\1", text)))
