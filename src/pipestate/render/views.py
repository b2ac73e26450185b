"""The runbooks' views on the terminal: a table each, with bars where it is a distribution."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pipestate.render.rows import rows_table
from pipestate.render.text import more_rows
from pipestate.safe import plain
from pipestate.verify.run import Shown
from pipestate.verify.values import Json

BAR = 30
Rows = Sequence[Mapping[str, Json]]


def show_views(views: Sequence[Shown], width: int, *, named: bool = False) -> Iterator[RenderableType]:
    """Draw each view that has rows, or an error; `named` says of each from which page it is."""
    for view in views:
        if not view.error and not view.rows:
            continue
        title = Text().append(f"\n{plain(view.id)}", "bold")
        yield title.append(f"  {plain(view.runbook)}", "dim") if named else title
        if view.error:
            yield Text(plain(view.error), "red")
            continue
        show = _distribution if is_distribution(view.rows) else rows_table
        yield show(view.rows, width)
        yield from (Text(more, "dim") for more in more_rows(view.total, len(view.rows)))


def is_distribution(rows: Rows) -> bool:
    """Names with numbers, largest first, and little else.

    >>> is_distribution([{"region": "north", "orders": 12}, {"region": "south", "orders": 3}])
    True
    >>> is_distribution([{"region": "north", "error": "no address"}])
    False
    """
    columns = list(rows[0])
    if not 2 <= len(columns) <= 3:
        return False
    numbers = [row[columns[1]] for row in rows]
    amounts = [number for number in numbers if isinstance(number, int) and number >= 0]
    named = all(isinstance(row[columns[0]], str) for row in rows)
    return named and len(amounts) == len(rows) and amounts == sorted(amounts, reverse=True)


def _distribution(rows: Rows, width: int) -> RenderableType:
    name, amount, *rest = rows[0]
    total = sum(int(str(row[amount])) for row in rows)
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column(Text(plain(name)), no_wrap=True)
    table.add_column(Text(plain(amount)), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, overflow="crop")
    for column in rest:
        table.add_column(Text(plain(column)), justify="right", no_wrap=True, overflow="ellipsis")
    for row in rows:
        bar = bar_of(int(str(row[amount])), total, min(BAR, width - 40))
        others = ("" if row[column] is None else Text(plain(str(row[column]))) for column in rest)
        table.add_row(Text(plain(str(row[name]))), str(row[amount]), Text(bar, "cyan"), *others)
    return table


def bar_of(amount: int, total: int, width: int) -> str:
    """A share of the whole; what is there at all is seen.

    >>> bar_of(1, 4, 8), bar_of(1, 1000, 8), bar_of(0, 1000, 8)
    ('██      ', '▏       ', '        ')
    """
    full = amount * width // total if total else 0
    return (("█" * full) or ("▏" if amount else "")).ljust(width)
